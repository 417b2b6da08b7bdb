package frag

// Sizes in the body of a Hello, in bytes.
const (
	HelloBytes    = FragHeaderBytes + helloBodyBytes // the smallest Hello, header included
	AddrBytesMax  = 64                               // longest endpoint name
	MTUBytesMin   = 256                              // smallest MTU of either channel
	WindowMax     = 1 << 16                          // largest window, in packets
	AckDelayUsMax = 1_000_000                        // longest ACK delay that a peer may announce

	helloBodyBytes = 184
	commandNameAt  = 56
	dataNameAt     = commandNameAt + AddrBytesMax

	// Offsets in the payload that are the same in every version.
	tagAt            = 8
	commandNameLenAt = 50

	// Version 1 had a shorter header in front of the same payload.
	versionOne            = 1
	versionOneHeaderBytes = 24
)

// Features of a Hello: optional abilities that are in use if both sides announce them.
const (
	// FeatureReliable: the sender's network loses, repeats and reorders nothing by itself.
	FeatureReliable uint64 = 1 << 1
)

// Probe tells over which channel and in which size a Hello travels. Four probes prove that a small
// and a full-size packet pass through both channels.
type Probe uint8

// The probes: a channel, and ProbeFull for a packet of the channel's full size. ProvenAll is the
// mask of all four in Hello.Proven.
const (
	ProbeCommand Probe = 0
	ProbeData    Probe = 1 << 0
	ProbeFull    Probe = 1 << 1

	ProbeCount       = 4
	ProvenAll  uint8 = 1<<ProbeCount - 1
)

// Bit returns the probe's bit in Hello.Proven.
func (p Probe) Bit() uint8 { return 1 << (p & (ProbeCount - 1)) }

// Hello is the body of a Hello or HelloAck: all that a module tells a peer about itself.
type Hello struct {
	Incarnation uint64 // random number of this life of the sender's module, not 0
	Tag         uint64 // what the receiver must put in Header.Conn towards the sender, not 0
	// Expected is the incarnation that the sender wants to reach, from the receiver's Name; 0 takes
	// any.
	Expected     uint64
	Features     uint64 // optional abilities; both sides use those that both announce
	CommandName  []byte // endpoint names, opaque, at most AddrBytesMax each
	DataName     []byte
	WindowPkts   uint32 // the sender's receive window, 1 to WindowMax
	FragBytesMax uint32 // largest fragment that the sender reassembles, not 0
	AckDelayUs   uint32 // how long the sender may hold back an ACK, 0 to AckDelayUsMax
	MTUBytes     uint16 // largest datagram on the data channel, at least MTUBytesMin
	CommandBytes uint16 // largest datagram on the command channel, at least MTUBytesMin
	Credit       uint16 // packets that the sender has room for, from the receiver's first one on
	VersionMin   uint8  // the protocol versions that the sender speaks
	VersionMax   uint8
	Probe        Probe
	Proven       uint8 // mask of Probe.Bit: probes known to have made the round trip
}

// valid says whether every value is in its range. The version of the packet is Version, so that the
// sender's range must hold it.
func (m *Hello) valid() bool {
	return m.Incarnation != 0 && m.Tag != 0 &&
		m.WindowPkts >= 1 && m.WindowPkts <= WindowMax && m.FragBytesMax != 0 &&
		m.AckDelayUs <= AckDelayUsMax &&
		m.MTUBytes >= MTUBytesMin && m.CommandBytes >= MTUBytesMin &&
		versionRange(m.VersionMin, m.VersionMax) &&
		m.VersionMin <= Version && m.VersionMax >= Version &&
		m.Probe < ProbeCount && m.Proven <= ProvenAll &&
		len(m.CommandName) <= AddrBytesMax && len(m.DataName) <= AddrBytesMax
}

// Encode writes a whole packet of sizeBytes at the start of b: the header h, whose Kind (Hello or
// HelloAck), Conn, Seq and Number count and whose other fields Encode sets; the body m; and zeros
// up to sizeBytes, which it returns. HelloBytes is the small size. It panics if sizeBytes is less
// than HelloBytes, more than a packet may have, or more than len(b), and if a value in m is out of
// its range: all of them come from the caller's own configuration.
func (m *Hello) Encode(b []byte, h *Header, sizeBytes int) int {
	if sizeBytes < HelloBytes || sizeBytes > FragHeaderBytes+PayloadBytesMax || !m.valid() {
		panic("frag: invalid Hello")
	}
	b = b[:sizeBytes]
	*h = Header{
		Kind: h.Kind, Conn: h.Conn, Seq: h.Seq, Number: h.Number,
		PayloadLen: uint16(sizeBytes - FragHeaderBytes),
	}
	h.Encode(b)
	p := b[FragHeaderBytes:]
	clear(p)
	le.PutUint64(p[0:], m.Incarnation)
	le.PutUint64(p[8:], m.Tag)
	le.PutUint64(p[16:], m.Expected)
	le.PutUint64(p[24:], m.Features)
	le.PutUint32(p[32:], m.WindowPkts)
	le.PutUint32(p[36:], m.FragBytesMax)
	le.PutUint16(p[40:], m.MTUBytes)
	le.PutUint16(p[42:], m.CommandBytes)
	le.PutUint16(p[44:], m.Credit)
	p[46] = m.VersionMin
	p[47] = m.VersionMax
	p[48] = byte(m.Probe)
	p[49] = m.Proven
	p[50] = byte(len(m.CommandName))
	p[51] = byte(len(m.DataName))
	le.PutUint32(p[52:], m.AckDelayUs)
	copy(p[commandNameAt:], m.CommandName)
	copy(p[dataNameAt:], m.DataName)
	return sizeBytes
}

// DecodeHello reads the payload of a Hello or HelloAck as Decode returned it. The names in *m
// alias payload: copy what must outlive the packet. The error is ErrShort, ErrHello for a value
// out of its range, or ErrReserved when the padding or the unused part of a name is not zero;
// after it the content of *m has no meaning. It never allocates.
func DecodeHello(payload []byte, m *Hello) error {
	if len(payload) < helloBodyBytes {
		return ErrShort
	}
	p := (*[helloBodyBytes]byte)(payload)
	commandLen, dataLen := int(p[50]), int(p[51])
	if commandLen > AddrBytesMax || dataLen > AddrBytesMax {
		return ErrHello
	}
	commandEnd, dataEnd := commandNameAt+commandLen, dataNameAt+dataLen
	*m = Hello{
		Incarnation:  le.Uint64(p[0:]),
		Tag:          le.Uint64(p[8:]),
		Expected:     le.Uint64(p[16:]),
		Features:     le.Uint64(p[24:]),
		WindowPkts:   le.Uint32(p[32:]),
		FragBytesMax: le.Uint32(p[36:]),
		MTUBytes:     le.Uint16(p[40:]),
		CommandBytes: le.Uint16(p[42:]),
		Credit:       le.Uint16(p[44:]),
		VersionMin:   p[46],
		VersionMax:   p[47],
		Probe:        Probe(p[48]),
		Proven:       p[49],
		AckDelayUs:   le.Uint32(p[52:]),
		CommandName:  payload[commandNameAt:commandEnd:commandEnd],
		DataName:     payload[dataNameAt:dataEnd:dataEnd],
	}
	if !m.valid() {
		return ErrHello
	}
	if !allZero(p[commandEnd:dataNameAt]) || !allZero(payload[dataEnd:]) {
		return ErrReserved
	}
	return nil
}

// allZero says whether every byte of b is zero. Words first: a full-size Hello has kilobytes of
// padding.
func allZero(b []byte) bool {
	for len(b) >= 8 {
		if le.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// ForeignHello looks at a packet that Decode refused with ErrVersion. If it is a Hello of another
// protocol version, ok is true, tag is its sender's connection tag, version its version, and name
// the endpoint name of its sender's command channel (aliasing pkt): what the answer, EncodeReject,
// needs. It reads only what is the same in every version, for ever.
func ForeignHello(pkt []byte) (tag uint64, version uint8, name []byte, ok bool) {
	if len(pkt) < 2 || pkt[0] != Magic {
		return 0, 0, nil, false
	}
	version = pkt[1] >> 4
	header := FragHeaderBytes
	if version == versionOne {
		header = versionOneHeaderBytes
	}
	if len(pkt) < header+helloBodyBytes {
		return 0, 0, nil, false
	}
	p := pkt[header:]
	tag = le.Uint64(p[tagAt:])
	n := int(p[commandNameLenAt])
	if version == Version || Kind(pkt[1]&0x0F) != KindHello || tag == 0 || n > AddrBytesMax {
		return 0, 0, nil, false
	}
	return tag, version, p[commandNameAt : commandNameAt+n : commandNameAt+n], true
}

// EncodeReject writes a Reject at the start of b and returns its length, at most RejectBytes: less
// than that of any Hello. tag is the Hello's sender tag, reason one of the Reject constants,
// version the version of the Hello (Version, or what ForeignHello returned): a peer reads the
// packet as one of its own version, with a layout that is the same in all but version 1. lo and hi
// are the versions spoken here.
func EncodeReject(b []byte, tag uint64, reason, version, lo, hi uint8) int {
	h := Header{Kind: KindReject, Conn: tag, Tag: reason, PayloadLen: rejectBodyBytes}
	b = b[:RejectBytes]
	h.Encode(b)
	b[1] = version<<4 | byte(KindReject)
	n := FragHeaderBytes
	if version == versionOne { // its payload's length stands where the cumulative ACK does now
		n = versionOneHeaderBytes
		clear(b[12:n])
		le.PutUint16(b[20:], rejectBodyBytes)
	}
	b[n], b[n+1] = lo, hi
	return n + rejectBodyBytes
}

// RejectVersions reads the payload of a Reject as Decode returned it: the versions its sender
// speaks.
func RejectVersions(payload []byte) (lo, hi uint8) {
	return payload[0], payload[1]
}
