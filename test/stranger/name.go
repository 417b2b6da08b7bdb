package stranger

// name is a module name of section 10.
type name struct {
	provider      string
	command, data []byte
	incarnation   uint64
	mtu, tiny     uint16
}

func decodeName(b []byte) (*name, error) {
	if len(b) < 16 || b[0] != 1 || len(b) != 16+int(b[1])+int(b[2])+int(b[3]) {
		return nil, errNoPacket
	}
	for _, n := range b[1:4] {
		if n < 1 || n > 64 {
			return nil, errNoPacket
		}
	}
	c, d := 16+int(b[1]), 16+int(b[1])+int(b[2])
	n := &name{
		provider: string(b[16:c]), command: b[c:d], data: b[d:], incarnation: le.Uint64(b[4:]),
		mtu: le.Uint16(b[12:]), tiny: le.Uint16(b[14:]),
	}
	if n.incarnation == 0 || n.mtu < 256 || n.tiny < 256 {
		return nil, errNoPacket
	}
	return n, nil
}

func (n *name) encode() []byte {
	b := []byte{1, byte(len(n.provider)), byte(len(n.command)), byte(len(n.data))}
	b = le.AppendUint16(le.AppendUint16(le.AppendUint64(b, n.incarnation), n.mtu), n.tiny)
	return append(append(append(b, n.provider...), n.command...), n.data...)
}
