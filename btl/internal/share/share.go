// Package share lets endpoints share a common resource by dynamic thresholds: it says whether one
// may take another item.
//
// The thresholds are dynamic (Choudhury and Hahne 1998): one of several endpoints may hold as many
// items as are free. That alone would exhaust the resource: peers that stall one after the other,
// and hold their items, take half of the rest each. So a reserve is denied to endpoints that hold
// more than a few items, and even to a sole endpoint: its peer may be dead. Endpoints that hold few
// share the reserve's first half by the same rule. Its other half is for one item each, so that as
// many peers can stall before it is used up.
//
//	|<----------------------- all ----------------------->|
//	|  held, by all  |    free    |         reserve       |
//	|                |            |   few   |  one each   |
//	                  as many as are free here may one of several hold
//
// Start reading at MayHave. The package has no state.
package share

// NewcomersShare is the divisor for the reserve, kept for endpoints that hold next to nothing, and
// for an endpoint's share of the free items in its first half.
const NewcomersShare = 8

// MayHave says whether an endpoint that holds held of all items may take one more free item.
func MayHave(held, free, all int, alone bool) bool {
	reserve := all / NewcomersShare
	return free > 0 && (alone && free > reserve || held < free-reserve || held < few(free, reserve))
}

// few is the number of the reserve's items that one endpoint may hold.
func few(free, reserve int) int {
	return max(1, (min(free, reserve)-reserve/2)/NewcomersShare)
}

// MayAdd is MayHave for several items: it returns how many more the endpoint may take.
func MayAdd(held, free, all int, alone bool) int {
	reserve := all / NewcomersShare
	if alone {
		return max(free-reserve, min(few(free, reserve)-held, free))
	}
	return max((free-reserve-held+1)/2, min(few(free, reserve)-held, free))
}
