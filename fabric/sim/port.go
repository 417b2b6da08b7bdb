package sim

import (
	"encoding/binary"
	"fmt"

	"gobtl/fabric"
)

const (
	portNameBytes  = 8
	portNamePrefix = "sim:"
	maxPorts       = 1 << 16 // limit of the name format
)

// Port is the address of an endpoint, and consists of the number of a node and the number of an
// endpoint. The endpoints of a node are numbered in the order in which the domain opens them. The
// endpoint of a btl.Module's command channel has the number 0, and the endpoint of its data channel
// has the number 1.
type Port struct{ Node, Index int }

// Name returns the same name as Endpoint.Name of the endpoint at this Port. The name of a Port does
// not change when the node restarts.
func (p Port) Name() []byte {
	return p.appendName(make([]byte, 0, portNameBytes))
}

func (p Port) appendName(name []byte) []byte {
	name = append(name, portNamePrefix...)
	name = binary.BigEndian.AppendUint16(name, uint16(p.Node))
	return binary.BigEndian.AppendUint16(name, uint16(p.Index))
}

// String returns "node/index".
func (p Port) String() string { return fmt.Sprintf("%d/%d", p.Node, p.Index) }

// ParsePort converts a result of Port.Name back to the Port. The errors of ParsePort wrap
// fabric.ErrBadName.
func ParsePort(name []byte) (Port, error) {
	if len(name) != portNameBytes || string(name[:len(portNamePrefix)]) != portNamePrefix {
		return Port{}, fmt.Errorf("%w: sim: %d bytes, want %d starting with %q",
			fabric.ErrBadName, len(name), portNameBytes, portNamePrefix)
	}
	return Port{
		Node:  int(binary.BigEndian.Uint16(name[4:])),
		Index: int(binary.BigEndian.Uint16(name[6:])),
	}, nil
}
