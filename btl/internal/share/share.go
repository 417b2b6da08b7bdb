package share

// Items is the number of items of one resource that the endpoints of a host together hold.
type Items int32

// Take counts one more item.
func (n *Items) Take() { *n++ }

// Give counts one item less.
func (n *Items) Give() { *n-- }

// Host contains the counts of one host.
type Host struct {
	endpoints   int
	Buffers     Items // send buffers
	Descriptors Items // descriptors of fragments
}

// Enter counts one more endpoint of the host.
func (h *Host) Enter() { h.endpoints++ }

// Leave counts one endpoint of the host less.
func (h *Host) Leave() { h.endpoints-- }

// Endpoints returns the number of endpoints of the host. A nil Host has no endpoint.
func (h *Host) Endpoints() int {
	if h == nil {
		return 0
	}
	return h.endpoints
}

// Sole says whether the module has only one endpoint, and whether all its endpoints belong to one
// host.
type Sole struct {
	Endpoint bool // the endpoint is the only one
	Host     bool // all endpoints belong to the same host
}

// MayTake reports whether an endpoint of a host may take one more item. The arguments "held",
// "free" and "all" of MayTake are those of MayHave. The argument "ofHost" of MayTake is the number
// of items that all endpoints of the host hold. A host that holds an item may not take the items of
// the second half of the reserve.
func MayTake(held int32, ofHost Items, free, all int, sole Sole) bool {
	return (ofHost == 0 || free > all/NewcomersShare/2) &&
		MayHave(int(held), free, all, sole.Endpoint) &&
		(sole.Host || held == 0 || MayHave(int(ofHost), free, all, false))
}

// Ample returns how many items an endpoint of a host may take one after the other without reaching
// the threshold of the endpoint or of the host. If the result is not positive, or for further
// items, MayTake decides. The arguments of Ample are those of MayTake. The items that the endpoint
// holds must be a part of ofHost.
func Ample(ofHost Items, free, all int) int {
	return (free - all/NewcomersShare - int(ofHost) + 1) >> 1
}

// NewcomersShare sets the size of the reserve (the items for endpoints that hold few items), which
// is 1/NewcomersShare of all items. While only items of the reserve are free, an endpoint may hold
// one item, or at most 1/NewcomersShare of the free items in the first half of the reserve, if this
// is more. The items of the second half of the reserve are for endpoints of hosts that hold none.
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
