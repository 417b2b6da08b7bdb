package frag

// Sizes in the body of a Hello, in bytes. docs/protocol.md, section 7, has the layout.
const (
	HelloBytesMin = FragHeaderBytes + helloFixedBytes // a Hello without extensions, header included
	// HelloBytesMax bounds what Encode writes: every extension that is known, at its largest.
	HelloBytesMax = HelloBytesMin + 2*(extHeadBytes+AddrBytesMax) +
		2*(extHeadBytes+CookieBytesMax) + extHeadBytes + LabelBytesMax + extHeadBytes + awayBytes +
		extHeadBytes + PaddingBytesMax
	AddrBytesMax    = 64        // longest endpoint name
	CookieBytesMax  = 32        // longest cookie
	LabelBytesMax   = 32        // longest label
	PaddingBytesMax = 255       // most padding: all that an extension can have
	MTUBytesMin     = 256       // smallest MTU of either channel
	WindowMax       = 1 << 16   // largest window, in packets
	AckDelayUsMax   = 1_000_000 // longest ACK delay that a peer may announce

	helloFixedBytes = 72
	extHeadBytes    = 2 // type and length of an extension
	awayBytes       = 4
	extCritical     = 0x80 // who does not know the extension must refuse the Hello
)

// Types of extensions, in the order in which they stand in a Hello. 16 to 31 are kept for the keys
// of protected connections.
const (
	extCommandName   = 1
	extDataName      = 2
	extCommandCookie = 3
	extDataCookie    = 4
	extLabel         = 5
	extAway          = 6
	extPadding       = 7
)

// Features of a Hello: optional abilities that are in use if both sides announce them.
const (
	// FeatureReliable: the sender's network loses, repeats and reorders nothing by itself.
	FeatureReliable uint64 = 1 << 1
)

// Probe tells over which channel a Hello travels.
type Probe uint8

// The probes. ProvenAll is the mask of both in Hello.Proven.
const (
	ProbeCommand Probe = 0
	ProbeData    Probe = 1

	ProbeCount       = 2
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
	Expected uint64
	// Nonce is a random number of the sender for each channel; a HelloAck and a Retry give back that
	// of the Hello which they answer. Knowledge of the nonce proves that a peer receives on that
	// channel.
	Nonce    uint64
	Features uint64 // optional abilities; both sides use those that both announce
	Required uint64 // those of Features without which the sender does not want the connection
	// CommandName and DataName are the sender's endpoints, opaque, at most AddrBytesMax each; none if
	// empty. In a Hello with cookies they are the addresses that the cookies are for.
	CommandName []byte
	DataName    []byte
	// CommandCookie and DataCookie are what the receiver's Retries gave, at most CookieBytesMax each;
	// none if empty.
	CommandCookie []byte
	DataCookie    []byte
	Label         []byte // what the sender's owner calls it, at most LabelBytesMax; none if empty
	AwayMs        uint32 // how long the sender may say nothing because it computes, in milliseconds
	WindowPkts    uint32 // the sender's receive window, 1 to WindowMax
	FragBytesMax  uint32 // largest fragment that the sender reassembles, not 0
	AckDelayUs    uint32 // how long the sender may hold back an ACK, 0 to AckDelayUsMax
	MTUBytes      uint16 // largest datagram on the data channel, at least MTUBytesMin
	CommandBytes  uint16 // largest datagram on the command channel, at least MTUBytesMin
	Credit        uint16 // packets that the sender has room for, from the receiver's first one on
	VersionMin    uint8  // the protocol versions that the sender speaks
	VersionMax    uint8
	Probe         Probe
	Proven        uint8 // mask of Probe.Bit: channels that the sender knows to work, both ways
	Overhead      uint8 // bytes at the end of each datagram, for protection, up to OverheadBytesMax
	Padding       uint8 // zeros that only make it longer; see Pad

	// What DecodeHello found and does not know: how many extensions, and the type of the first one
	// that must be known (without its critical bit), 0 for none. Encode does not look at them.
	Others   uint8
	Critical uint8
}

// valid says whether every value is in its range. The version of the packet is Version, so that the
// sender's range must hold it.
func (m *Hello) valid() bool {
	return m.Incarnation != 0 && m.Tag != 0 && m.Required&^m.Features == 0 &&
		m.WindowPkts >= 1 && m.WindowPkts <= WindowMax && m.FragBytesMax != 0 &&
		m.AckDelayUs <= AckDelayUsMax &&
		m.MTUBytes >= MTUBytesMin && m.CommandBytes >= MTUBytesMin &&
		versionRange(m.VersionMin, m.VersionMax) &&
		m.VersionMin <= Version && m.VersionMax >= Version &&
		m.Probe < ProbeCount && m.Proven <= ProvenAll && m.Overhead <= OverheadBytesMax
}

// extension is one of those that are known: its type, the longest value, and where it is kept.
type extension struct {
	kind, most int
	value      *[]byte
}

// extensions are those that are known and consist of bytes, in the order of the wire.
func (m *Hello) extensions() [5]extension {
	return [...]extension{
		{extCommandName, AddrBytesMax, &m.CommandName},
		{extDataName, AddrBytesMax, &m.DataName},
		{extCommandCookie, CookieBytesMax, &m.CommandCookie},
		{extDataCookie, CookieBytesMax, &m.DataCookie},
		{extLabel, LabelBytesMax, &m.Label},
	}
}

// Pad sets Padding so that no HelloAck from an end with addresses of the same lengths is longer:
// one has no cookies, but perhaps a label and a time away. So by a channel that nobody has proven
// not more goes back than came.
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

// Bytes is the length of the whole packet that Encode writes, at most HelloBytesMax.
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
	return n
}

// Encode writes a whole packet at the start of b and returns its length, m.Bytes(): the header h,
// whose Kind (Hello or HelloAck), Conn, Seq and Number count and whose other fields Encode sets;
// and the body m. It panics if b is too short, and if a value in m is out of its range: all of
// them come from the caller's own configuration, or from what was decoded.
func (m *Hello) Encode(b []byte, h *Header) int {
	sizeBytes := m.Bytes()
	if !m.valid() {
		panic("frag: invalid Hello")
	}
	b = b[:sizeBytes]
	h.bare(uint16(sizeBytes - FragHeaderBytes))
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
		clear(p[extHeadBytes:])
	}
	return sizeBytes
}

// bare leaves nothing in a header but what packets without extras and acknowledgement have.
func (h *Header) bare(payloadLen uint16) {
	*h = Header{
		Kind: h.Kind, Conn: h.Conn, Seq: h.Seq, Number: h.Number, PayloadLen: payloadLen,
	}
}

// DecodeHello reads the payload of a Hello or HelloAck as Decode returned it. What is of variable
// length in *m aliases payload: copy what must outlive the packet. The error is ErrShort, ErrHello
// for a value out of its range or an extension that is malformed, or ErrReserved; after it the
// content of *m has no meaning. It never allocates.
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

// decodeExtensions reads extensions: in the order of their types, each once, none of those that are
// known empty.
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
		if kind <= extPadding {
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

// extend takes over the value of an extension that is known, unless it is malformed.
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
	}
	e := m.extensions()[kind-1]
	*e.value = value
	return len(value) > 0 && len(value) <= e.most
}

// away reads the value of that extension, 0 if it is malformed.
func away(value []byte) uint32 {
	if len(value) != awayBytes {
		return 0
	}
	return le.Uint32(value)
}
