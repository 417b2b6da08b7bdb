// Package share divides a common resource between endpoints by dynamic thresholds, which decide
// whether an endpoint may take another item.
//
// Choudhury and Hahne (1998) describe such thresholds, where each of several endpoints may
// hold as many items as are free. A part of the resource, the reserve, is only for
// endpoints that hold a few items, because stalled peers would otherwise use up the
// resource. Endpoints that hold few items share the first half of the reserve by a dynamic
// threshold. From the second half of the reserve, each endpoint may take one item, so that many
// peers can stall before the resource is used up.
//
//	|<----------------------- all ----------------------->|
//	|  held, by all  |    free    |         reserve       |
//	|                |            |   few   |  one each   |
//	                  as many as are free here may one of several hold
//
// The package has no state.
package share

// NewcomersShare is the divisor that gives the size of the reserve (the items for endpoints
// with a few items), as all/NewcomersShare. The divisor of the shares also gives an
// endpoint's part of the free items in the first half of the reserve.
const NewcomersShare = 8

// MayHave reports whether an endpoint may take one more item. The argument held is the number of
// items that the endpoint holds. The argument free is the number of free items, and the argument
// all is the number of all items. The argument alone is true for a sole endpoint.
func MayHave(held, free, all int, alone bool) bool {
	reserve := all / NewcomersShare
	return free > 0 && (alone && free > reserve || held < free-reserve || held < few(free, reserve))
}

// few returns the number of items that one endpoint may hold from the reserve, the items for
// endpoints with a few items.
func few(free, reserve int) int {
	return max(1, (min(free, reserve)-reserve/2)/NewcomersShare)
}

// MayAdd returns how many more items an endpoint may take. The arguments are those of MayHave.
func MayAdd(held, free, all int, alone bool) int {
	reserve := all / NewcomersShare
	if alone {
		return max(free-reserve, min(few(free, reserve)-held, free))
	}
	return max((free-reserve-held+1)/2, min(few(free, reserve)-held, free))
}
