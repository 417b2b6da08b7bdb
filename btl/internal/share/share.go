// Package share divides a common resource between endpoints by dynamic thresholds. The dynamic
// thresholds determine whether an endpoint is allowed to take one more item of the resource.
//
// With the dynamic thresholds of Choudhury and Hahne (1998), each endpoint may hold at most as many
// items as are free. A part of the resource, the reserve, is only for endpoints that hold few
// items. Without a reserve for these endpoints, stalled peers would use up the resource. Endpoints
// that hold few items share the first half of the reserve by a dynamic threshold. The second half
// of the reserve is only for endpoints that hold no item, so that many peers can stall before the
// resource is used up.
//
//	|<----------------------- all ----------------------->|
//	|  held, by all  |    free    |         reserve       |
//	|                |            |   few   |  one each   |
//	                  as many as are free here may one of several hold
//
// The package has no state.
package share

// NewcomersShare sets the size of the reserve (the items for endpoints that hold few items), which
// is 1/NewcomersShare of all items. While only items of the reserve are free, an endpoint may hold
// at most as many items as 1/NewcomersShare of the free items in the first half of the reserve, but
// always one.
const NewcomersShare = 8

// MayHave reports whether an endpoint may take one more item. The argument "held" of MayHave is the
// number of items that the endpoint holds. The argument "free" of MayHave is the number of free
// items, and the argument "all" is the number of all items. The argument "sole" of MayHave says
// whether the endpoint is the only one.
func MayHave(held, free, all int, sole bool) bool {
	reserve := all / NewcomersShare
	return free > 0 && (sole && free > reserve || held < free-reserve || held < few(free, reserve))
}

// The function "few" returns the maximum number of items that an endpoint may hold while only items
// of the reserve are free.
func few(free, reserve int) int {
	return max(1, (min(free, reserve)-reserve/2)/NewcomersShare)
}

// MayAdd returns how many more items an endpoint may take. MayAdd has the same arguments as
// MayHave.
func MayAdd(held, free, all int, sole bool) int {
	reserve := all / NewcomersShare
	if sole {
		return max(free-reserve, min(few(free, reserve)-held, free))
	}
	return max((free-reserve-held+1)/2, min(few(free, reserve)-held, free))
}
