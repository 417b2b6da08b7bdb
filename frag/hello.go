package frag

// The constants below are sizes in the body of a Hello, in bytes. The layout of a Hello is in
// docs/protocol.md, section 7.
const (
	HelloBytesMin = FragHeaderBytes + helloFixedBytes // a Hello without extensions, header included
	// HelloBytesMax is the length in bytes of the longest packet that Hello.Encode writes.
	HelloBytesMax = HelloBytesMin + 2*(extHeadBytes+AddrBytesMax) +
		2*(extHeadBytes+CookieBytesMax) + extHeadBytes + LabelBytesMax + extHeadBytes + awayBytes +
		extHeadBytes + PaddingBytesMax + extHeadBytes + NameBytesMax
	AddrBytesMax    = 64        // longest endpoint name
	CookieBytesMax  = 32        // longest cookie
	LabelBytesMax   = 32        // longest label
	PaddingBytesMax = 255       // longest padding, which is the longest extension
	MTUBytesMin     = 256       // smallest MTU of either channel
	WindowMax       = 1 << 16   // largest window, in packets
	AckDelayUsMax   = 1_000_000 // longest ACK delay that a peer may announce

	helloFixedBytes = 72
	extHeadBytes    = 2 // type and length of an extension
	awayBytes       = 4
	extCritical     = 0x80 // a receiver that does not know the extension must refuse the Hello
)

// The constants below are the types of a Hello's extensions, in their order within the Hello. Types
// 16 to 31 are reserved for the keys of encrypted connections.
const (
	extCommandName   = 1
	extDataName      = 2
	extCommandCookie = 3
	extDataCookie    = 4
	extLabel         = 5
	extAway          = 6
	extPadding       = 7
	extMoved         = 8
)

// A feature is an optional part of the protocol. A connection uses a feature if both ends of the
// connection announce the feature in their Hellos.
const (
	// FeatureReliable says that the network of the Hello's sender does not lose, duplicate or reorder
	// packets.
	FeatureReliable uint64 = 1 << 1
	// FeatureKept says that the sender of the Hello understands RejectKept and Hello.Moved.
	FeatureKept uint64 = 1 << 6
)

// Probe is the channel over which a Hello is sent.
type Probe uint8

// ProvenAll is the value of Hello.Proven if the addresses of both the command channel and the data
// channel are validated.
const (
	ProbeCommand Probe = 0
	ProbeData    Probe = 1

	ProbeCount       = 2
	ProvenAll  uint8 = 1<<ProbeCount - 1
)

// Bit returns the channel's bit in Hello.Proven.
func (p Probe) Bit() uint8 { return 1 << (p & (ProbeCount - 1)) }

// Hello is the body of a handshake packet (Hello or HelloAck), with which a module describes itself
// to a peer.
type Hello struct {
	Incarnation uint64 // random number of this run of the sender's module, not 0
	Tag         uint64 // value for Header.Conn in packets to the sender, not 0
	// Expected is the incarnation number of the module that the sender of the Hello wants to reach. If
	// Expected is 0, a module with any incarnation number can accept the Hello.
	Expected uint64
	// Nonce is a random number that the sender of a Hello chooses for each channel. A HelloAck or a
	// Retry contains the nonce of the Hello that it answers. By returning the nonce of a Hello, the
	// peer proves that it has received the Hello on the channel for which the nonce was chosen.
	Nonce    uint64
	Features uint64 // optional abilities; those of both ends are used
	Required uint64 // Features that the sender requires
	// CommandName and DataName are the sender's endpoint addresses on the command channel and the data
	// channel, as opaque bytes of at most AddrBytesMax. Encode omits CommandName or DataName if it is
	// empty. In a Hello with cookies, CommandName and DataName are the sender's addresses for which
	// the receiver has issued the cookies.
	CommandName []byte
	DataName    []byte
	// CommandCookie and DataCookie are the cookies that the sender of the Hello has received in Retry
	// packets, each of at most CookieBytesMax bytes. Encode omits an empty cookie.
	CommandCookie []byte
	DataCookie    []byte
	Label         []byte // label that the sender's application chose; none if empty
	// Moved is the encoded Name of a different module, to which the HelloAck redirects its receiver.
	// The module that Moved names is in the same operating-system process as the sender of the
	// HelloAck. Moved is permitted only in a HelloAck to a peer that has announced FeatureKept.
	Moved        []byte
	AwayMs       uint32 // how long the sender may be silent while it computes, in ms
	WindowPkts   uint32 // the sender's receive window, 1 to WindowMax
	FragBytesMax uint32 // largest fragment that the sender reassembles, not 0
	AckDelayUs   uint32 // how long the sender may delay an ACK, 0 to AckDelayUsMax
	MTUBytes     uint16 // largest datagram on the data channel, at least MTUBytesMin
	CommandBytes uint16 // largest datagram on the command channel, at least MTUBytesMin
	Credit       uint16 // packets that the sender has room for, from the receiver's first on
	VersionMin   uint8  // the protocol versions that the sender speaks
	VersionMax   uint8
	Probe        Probe
	Proven       uint8 // mask of Probe.Bit: channels that are validated in both directions
	Overhead     uint8 // protection bytes at the end of each datagram, up to OverheadBytesMax
	Padding      uint8 // number of zeros that lengthen the Hello; see Pad

	// Others and Critical describe the extensions whose types are unknown to DecodeHello. Others is
	// the number of unknown extensions. Critical is the type (without the critical bit) of the first
	// unknown extension that is marked as critical, or 0 if no unknown extension is critical. Encode
	// ignores Others and Critical.
	Others   uint8
	Critical uint8
}

// The method "valid" reports whether all fields of the Hello are in their ranges. The range of
// protocol versions in a Hello must include Version, because the Hello itself is a packet of this
// version.
func (m *Hello) valid() bool {
	return m.Incarnation != 0 && m.Tag != 0 && m.Required&^m.Features == 0 &&
		m.WindowPkts >= 1 && m.WindowPkts <= WindowMax && m.FragBytesMax != 0 &&
		m.AckDelayUs <= AckDelayUsMax &&
		m.MTUBytes >= MTUBytesMin && m.CommandBytes >= MTUBytesMin &&
		versionRange(m.VersionMin, m.VersionMax) &&
		m.VersionMin <= Version && m.VersionMax >= Version &&
		m.Probe < ProbeCount && m.Proven <= ProvenAll && m.Overhead <= OverheadBytesMax
}

// The type "extension" describes a known extension of a Hello by the extension's type, its largest
// length, and the Hello's field for its value.
type extension struct {
	kind, most int
	value      *[]byte
}

// The method "extensions" returns the Hello's extensions whose values are byte slices, in the order
// in which they are sent.
func (m *Hello) extensions() [5]extension {
	return [...]extension{
		{extCommandName, AddrBytesMax, &m.CommandName},
		{extDataName, AddrBytesMax, &m.DataName},
		{extCommandCookie, CookieBytesMax, &m.CommandCookie},
		{extDataCookie, CookieBytesMax, &m.DataCookie},
		{extLabel, LabelBytesMax, &m.Label},
	}
}

// Pad sets the field Padding so that the Hello is at least as long as a HelloAck with equally long
// names. With the padding, an answer to an address that is not validated is never longer than the
// Hello, which prevents amplification attacks.
func (m *Hello) Pad() {
	const answerBytes = HelloBytesMin + extHeadBytes + LabelBytesMax + extHeadBytes + awayBytes
	m.Padding = 0
	lacks := answerBytes - m.Bytes()
	for _, name := range [...][]byte{m.CommandName, m.DataName} {
		if len(name) > 0 {
			lacks += extHeadBytes + len(name)
		}
	}
	if lacks > 0 {
		m.Padding = uint8(max(lacks-extHeadBytes, 1))
	}
}

// Bytes returns the length of the whole packet that Encode writes, at most HelloBytesMax.
func (m *Hello) Bytes() int {
	n := HelloBytesMin
	for _, e := range m.extensions() {
		if len(*e.value) > 0 {
			n += extHeadBytes + len(*e.value)
		}
	}
	if m.AwayMs != 0 {
		n += extHeadBytes + awayBytes
	}
	if m.Padding != 0 {
		n += extHeadBytes + int(m.Padding)
	}
	if len(m.Moved) > 0 {
		n += extHeadBytes + len(m.Moved)
	}
	return n
}

// Encode writes a whole Hello or HelloAck packet at the start of b, and returns the length of the
// packet, m.Bytes(). The caller sets the fields Kind, Conn, Seq and Number of the header h, and
// Encode sets all remaining fields of h. Encode panics if the slice b is too short, or if a field
// of the Hello is out of its range.
func (m *Hello) Encode(b []byte, h *Header) int {
	sizeBytes := m.Bytes()
	if !m.valid() || len(m.Moved) > NameBytesMax {
		panic("frag: invalid Hello")
	}
	b = b[:sizeBytes]
	*h = Header{
		Kind: h.Kind, Conn: h.Conn, Seq: h.Seq, Number: h.Number,
		PayloadLen: uint16(sizeBytes - FragHeaderBytes),
	}
	h.Encode(b)
	p := b[FragHeaderBytes:]
	le.PutUint64(p[0:], m.Incarnation)
	le.PutUint64(p[8:], m.Tag)
	le.PutUint64(p[16:], m.Expected)
	le.PutUint64(p[24:], m.Nonce)
	le.PutUint64(p[32:], m.Features)
	le.PutUint64(p[40:], m.Required)
	le.PutUint32(p[48:], m.WindowPkts)
	le.PutUint32(p[52:], m.FragBytesMax)
	le.PutUint32(p[56:], m.AckDelayUs)
	le.PutUint16(p[60:], m.MTUBytes)
	le.PutUint16(p[62:], m.CommandBytes)
	le.PutUint16(p[64:], m.Credit)
	p[66], p[67] = m.VersionMin, m.VersionMax
	p[68], p[69], p[70], p[71] = byte(m.Probe), m.Proven, m.Overhead, 0
	p = p[helloFixedBytes:]
	for _, e := range m.extensions() {
		n := len(*e.value)
		switch {
		case n > e.most:
			panic("frag: invalid Hello")
		case n > 0:
			p[0], p[1] = byte(e.kind), byte(n)
			p = p[extHeadBytes+copy(p[extHeadBytes:], *e.value):]
		}
	}
	if m.AwayMs != 0 {
		p[0], p[1] = extAway, awayBytes
		le.PutUint32(p[extHeadBytes:], m.AwayMs)
		p = p[extHeadBytes+awayBytes:]
	}
	if m.Padding != 0 {
		p[0], p[1] = extPadding, m.Padding
		p = p[extHeadBytes:]
		clear(p[:m.Padding])
		p = p[m.Padding:]
	}
	if len(m.Moved) > 0 {
		p[0], p[1] = extMoved, byte(len(m.Moved))
		copy(p[extHeadBytes:], m.Moved)
	}
	return sizeBytes
}

// DecodeHello decodes the payload of a Hello or HelloAck that Decode has accepted. The slices in *m
// alias the slice "payload". The errors of DecodeHello are ErrShort, ErrReserved, and (for a field
// out of its range or a malformed extension) ErrHello. After an error the content of *m is
// undefined. DecodeHello never allocates.
func DecodeHello(payload []byte, m *Hello) error {
	if len(payload) < helloFixedBytes {
		return ErrShort
	}
	p := (*[helloFixedBytes]byte)(payload)
	*m = Hello{
		Incarnation:  le.Uint64(p[0:]),
		Tag:          le.Uint64(p[8:]),
		Expected:     le.Uint64(p[16:]),
		Nonce:        le.Uint64(p[24:]),
		Features:     le.Uint64(p[32:]),
		Required:     le.Uint64(p[40:]),
		WindowPkts:   le.Uint32(p[48:]),
		FragBytesMax: le.Uint32(p[52:]),
		AckDelayUs:   le.Uint32(p[56:]),
		MTUBytes:     le.Uint16(p[60:]),
		CommandBytes: le.Uint16(p[62:]),
		Credit:       le.Uint16(p[64:]),
		VersionMin:   p[66],
		VersionMax:   p[67],
		Probe:        Probe(p[68]),
		Proven:       p[69],
		Overhead:     p[70],
	}
	if !m.valid() {
		return ErrHello
	}
	if p[71] != 0 {
		return ErrReserved
	}
	return m.decodeExtensions(payload[helloFixedBytes:])
}

// decodeExtensions decodes the extensions in p. The extensions of a Hello must be in ascending
// order of their types. A Hello may contain each extension type only once, and an extension of a
// known type must not be empty.
func (m *Hello) decodeExtensions(p []byte) error {
	for last := -1; len(p) > 0; {
		if len(p) < extHeadBytes || len(p) < extHeadBytes+int(p[1]) {
			return ErrHello
		}
		kind, end := int(p[0]&^extCritical), extHeadBytes+int(p[1])
		value := p[extHeadBytes:end:end]
		if kind <= last || kind == 0 {
			return ErrHello
		}
		last = kind
		if kind <= extMoved {
			if p[0]&extCritical != 0 || !m.extend(kind, value) {
				return ErrHello
			}
		} else {
			m.Others++
			if p[0]&extCritical != 0 && m.Critical == 0 {
				m.Critical = uint8(kind)
			}
		}
		p = p[end:]
	}
	return nil
}

// The method "extend" stores the value of an extension of a known type in the Hello, and reports
// whether the value is well-formed.
func (m *Hello) extend(kind int, value []byte) bool {
	switch kind {
	case extAway:
		m.AwayMs = away(value)
		return m.AwayMs != 0
	case extPadding:
		if !allZero(value) {
			return false
		}
		m.Padding = uint8(len(value))
		return m.Padding != 0
	case extMoved:
		m.Moved = value
		return len(value) > 0 && len(value) <= NameBytesMax
	}
	e := m.extensions()[kind-1]
	*e.value = value
	return len(value) > 0 && len(value) <= e.most
}

// The function "away" decodes the value of the extension extAway, which is a number of
// milliseconds. For a malformed value of the extension, the function "away" returns 0.
func away(value []byte) uint32 {
	if len(value) != awayBytes {
		return 0
	}
	return le.Uint32(value)
}
