package layers

import (
	"encoding/binary"
	"strings"

	"gobtl/vnic"
)

// Leave returns the function that makes valid messages for a malicious peer (Target.Leave), by the
// name of the Load and the name of its module.
func Leave(load string, module []byte) func(life int) [][]byte {
	switch {
	case load == "call":
		return leaveRequests
	case load == "queue":
		return leaveMessages
	case load == "conn":
		return leaveStreams
	case strings.HasPrefix(load, "vnic"):
		return leaveRegistrations(module)
	}
	return leaveEager
}

// leaveRequests makes requests of method 1, with a deadline of a second.
func leaveRequests(life int) [][]byte {
	msg := make([]byte, 16+1000)
	binary.LittleEndian.PutUint64(msg, uint64(life))
	binary.LittleEndian.PutUint32(msg[8:], 1000)
	msg[12], msg[14] = 1, 1
	return [][]byte{msg, msg, msg}
}

// leaveMessages makes messages of a queue.
func leaveMessages(int) [][]byte {
	return [][]byte{{1, 7: 0}, append([]byte{1, 7: 0}, make([]byte, 2000)...)}
}

// leaveStreams makes the messages of a stream.
func leaveStreams(life int) [][]byte {
	all := make([][]byte, 0, 4)
	for kind, value := range map[byte]uint64{1: 1 << 18, 4: 0, 6: 1000, 7: 0} {
		msg := make([]byte, 16)
		msg[0], msg[1] = kind, 1
		binary.LittleEndian.PutUint32(msg[4:], uint32(life))
		binary.LittleEndian.PutUint64(msg[8:], value)
		if kind == 4 {
			msg = append(msg, make([]byte, 1000)...)
		}
		all = append(all, msg)
	}
	return all
}

// leaveEager makes eager messages that no receive matches.
func leaveEager(int) [][]byte {
	all := make([][]byte, 0, 3)
	for n := range 3 {
		msg := make([]byte, 16+1000)
		msg[0], msg[8] = 1, 99
		binary.LittleEndian.PutUint32(msg[4:], uint32(n))
		all = append(all, msg)
	}
	return all
}

// leaveRegistrations makes registrations of an unreachable host that claim addresses of the
// manager.
func leaveRegistrations(module []byte) func(life int) [][]byte {
	return func(life int) [][]byte {
		r := vnic.Registration{Host: "away", Manager: "lab", Instance: uint64(life), Ways: vnic.Ways{
			Receive: [][]byte{module[:9]}, Send: [][]byte{module[:9]}, Module: module,
		}}
		msg := vnic.Message{Method: vnic.MethodSet, Attr: vnic.AttrRegister, Data: r.Append(nil)}
		return [][]byte{msg.Append(nil), msg.Append(nil)}
	}
}
