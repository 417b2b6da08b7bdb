package btl

// What all endpoints draw from is shared by dynamic thresholds (Choudhury and Hahne 1998): one of
// several may hold as many as are free. That alone would leave nothing: peers that stand still one
// after the other, and do not give back what is on its way to them, take half of the rest each. So
// a part is kept from all who have more than a few, and one alone leaves it, too: it may be waiting
// for a peer that is dead. A few, of the reserve, are shared in the same way, down to one each; and
// for those ones half of it is kept, so that as many peers can stand still before it is used up.
//
//	|<----------------------- all ----------------------->|
//	|  held, by all  |    free    |         reserve       |
//	|                |            |   few   |  one each   |
//	                  as many as are free here may one of several hold

// newcomersShare is the part that is kept for those who hold next to nothing, and of what is free
// in its first half the share of one of them.
const newcomersShare = 8

// mayHave says whether who holds some of all may take one more of those that are free.
func mayHave(held, free, all int, alone bool) bool {
	reserve := all / newcomersShare
	return free > 0 && (alone && free > reserve || held < free-reserve || held < few(free, reserve))
}

// few is what one may hold of the reserve.
func few(free, reserve int) int {
	return max(1, (min(free, reserve)-reserve/2)/newcomersShare)
}

// mayAdd is mayHave for several at once: how many more.
func mayAdd(held, free, all int, alone bool) int {
	reserve := all / newcomersShare
	if alone {
		return max(free-reserve, min(few(free, reserve)-held, free))
	}
	return max((free-reserve-held+1)/2, min(few(free, reserve)-held, free))
}
