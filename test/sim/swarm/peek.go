package swarm

import (
	"reflect"

	"gobtl/btl"
)

// What the judge must know and no application needs: the numbers by which packets name
// connections. They are read from the module's own fields; a field that is renamed fails here and
// is found by the first run.

// The places of those fields, looked up once: the judge reads them at each message.
var (
	endpointTag     = placeOf(reflect.TypeFor[btl.Endpoint](), "id", "Tag")
	endpointPeerTag = placeOf(reflect.TypeFor[btl.Endpoint](), "id", "Peer", "Tag")
	endpointPeerInc = placeOf(reflect.TypeFor[btl.Endpoint](), "id", "Peer", "Incarnation")
	moduleSlots     = placeOf(reflect.TypeFor[btl.Module](), "peers", "slots", "values")
	moduleFreeSlots = placeOf(reflect.TypeFor[btl.Module](), "peers", "slots", "free")
)

func tagOf(ep *btl.Endpoint) uint64 { return peek(ep, endpointTag).Uint() }

func peerTagOf(ep *btl.Endpoint) uint64 { return peek(ep, endpointPeerTag).Uint() }

func peerIncarnationOf(ep *btl.Endpoint) uint64 { return peek(ep, endpointPeerInc).Uint() }

// endpointsOf is the number of endpoints that the module knows of, half-open ones too.
func endpointsOf(m *btl.Module) int {
	return peek(m, moduleSlots).Len() - peek(m, moduleFreeSlots).Len()
}

// placeOf is the index of a field, or of one within it, in the form of FieldByIndex.
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
