package swarm

import (
	"reflect"

	"gobtl/btl"
)

// What the judge must know and no application needs: the numbers by which packets name
// connections. They are read from the module's own fields; a field that is renamed fails here and
// is found by the first run.

func tagOf(ep *btl.Endpoint) uint64 { return peek(ep, "tag").Uint() }

func peerTagOf(ep *btl.Endpoint) uint64 { return peek(ep, "peerTag").Uint() }

func peerIncarnationOf(ep *btl.Endpoint) uint64 {
	return peek(ep, "peer").FieldByName("incarnation").Uint()
}

// endpointsOf is the number of endpoints that the module knows of, half-open ones too.
func endpointsOf(m *btl.Module) int {
	return peek(m, "slots").Len() - peek(m, "freeSlots").Len()
}

func peek(from any, field string) reflect.Value {
	return reflect.ValueOf(from).Elem().FieldByName(field)
}
