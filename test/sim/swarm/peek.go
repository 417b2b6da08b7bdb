package swarm

import (
	"reflect"

	"gobtl/btl"
)

// The judge needs the tags and numbers by which packets name connections, and reads them from
// private fields of the module. If one of the private fields is renamed, the first run fails.

// The indices of the private fields are looked up once, because the judge reads the fields at each
// message.
var (
	endpointTag     = placeOf(reflect.TypeFor[btl.Endpoint](), "c", "ID", "Tag")
	endpointPeerTag = placeOf(reflect.TypeFor[btl.Endpoint](), "c", "ID", "Peer", "Tag")
	endpointPeerInc = placeOf(reflect.TypeFor[btl.Endpoint](), "c", "ID", "Peer", "Incarnation")
	moduleSlots     = placeOf(reflect.TypeFor[btl.Module](), "all", "Peers", "slots", "values")
	moduleFreeSlots = placeOf(reflect.TypeFor[btl.Module](), "all", "Peers", "slots", "free")
)

func tagOf(ep *btl.Endpoint) uint64 { return peek(ep, endpointTag).Uint() }

func peerTagOf(ep *btl.Endpoint) uint64 { return peek(ep, endpointPeerTag).Uint() }

func peerIncarnationOf(ep *btl.Endpoint) uint64 { return peek(ep, endpointPeerInc).Uint() }

// endpointsOf returns the number of a module's endpoints, including half-open ones.
func endpointsOf(m *btl.Module) int {
	return peek(m, moduleSlots).Len() - peek(m, moduleFreeSlots).Len()
}

// placeOf returns the index of a field, or of a nested field, for FieldByIndex.
func placeOf(in reflect.Type, names ...string) (index []int) {
	for _, name := range names {
		field, ok := in.FieldByName(name)
		if !ok {
			panic("swarm: " + in.String() + " has no field " + name)
		}
		index = append(index, field.Index...)
		in = field.Type
	}
	return index
}

func peek(from any, index []int) reflect.Value {
	return reflect.ValueOf(from).Elem().FieldByIndex(index)
}
