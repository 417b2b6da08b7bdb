package offload

import "errors"

// HeaderBytes is the size of a Header.
const HeaderBytes = 10

// Flags of a Header.
const (
	NeedsChecksum = 1 // checksum the bytes from ChecksumStart on
	DataValid     = 2
)

// The types of large frames have the same values as in struct virtio_net_hdr.
const (
	None = 0
	TCP4 = 1
	UDP  = 3 // cut into IP fragments; not handled here
	TCP6 = 4
	UDP4 = 5 // UDP segmentation, of IPv4 and IPv6
	ECN  = 0x80
)

// ErrFrame means that a frame does not match the values in its Header.
var ErrFrame = errors.New("offload: frame and its header do not fit")

// Header is the kernel's struct virtio_net_hdr, with its fields in little-endian byte order. When
// package tap opens a device, it selects little-endian byte order for the device's virtio_net_hdr.
type Header struct {
	Flags          uint8
	Type           uint8
	HeaderLen      uint16 // a hint
	Size           uint16 // payload bytes of each frame except the last
	ChecksumStart  uint16
	ChecksumOffset uint16
}

// Put writes the header to b.
func (h *Header) Put(b []byte) {
	_ = b[HeaderBytes-1]
	b[0], b[1] = h.Flags, h.Type
	for i, v := range [...]uint16{h.HeaderLen, h.Size, h.ChecksumStart, h.ChecksumOffset} {
		b[2+2*i], b[3+2*i] = byte(v), byte(v>>8)
	}
}

// ParseHeader decodes the first HeaderBytes bytes of b.
func ParseHeader(b []byte) Header {
	_ = b[HeaderBytes-1]
	word := func(at int) uint16 { return uint16(b[at]) | uint16(b[at+1])<<8 }
	return Header{
		Flags: b[0], Type: b[1], HeaderLen: word(2), Size: word(4), ChecksumStart: word(6),
		ChecksumOffset: word(8),
	}
}

const (
	ethBytes  = 14
	vlanBytes = 4

	typeIPv4 = 0x0800
	typeIPv6 = 0x86DD
	typeVLAN = 0x8100
	typeQinQ = 0x88A8

	protoTCP = 6
	protoUDP = 17

	ip4Bytes = 20
	ip6Bytes = 40
	udpBytes = 8
	tcpBytes = 20

	flagFIN, flagSYN, flagRST, flagPSH = 1, 2, 4, 8
	flagACK, flagURG, flagECE, flagCWR = 16, 32, 64, 128
)

// The type "layers" has the offsets of the headers in a TCP or UDP frame.
type layers struct {
	l3, l4, payload int // offsets
	end             int // end of the IP packet; padding may follow
	proto           uint8
	v6              bool
}

// dissect finds the headers of a frame. The result "ok" of dissect is true if the frame contains a
// complete IP packet with a TCP or UDP header. For IP fragments and for packets with IPv6 extension
// headers, the result "ok" of dissect is false.
func dissect(f []byte) (l layers, ok bool) {
	if len(f) < ethBytes {
		return l, false
	}
	kind := be.Uint16(f[12:])
	l.l3 = ethBytes
	if (kind == typeVLAN || kind == typeQinQ) && len(f) >= ethBytes+vlanBytes {
		kind = be.Uint16(f[16:])
		l.l3 += vlanBytes
	}
	p := f[l.l3:]
	switch {
	case kind == typeIPv4 && len(p) >= ip4Bytes && p[0]>>4 == 4:
		l.l4 = l.l3 + int(p[0]&0xF)*4
		l.end = l.l3 + int(be.Uint16(p[2:]))
		l.proto = p[9]
		if be.Uint16(p[6:])&0x3FFF != 0 { // a fragment of an IP datagram
			return l, false
		}
	case kind == typeIPv6 && len(p) >= ip6Bytes && p[0]>>4 == 6:
		l.v6 = true
		l.l4 = l.l3 + ip6Bytes
		l.end = l.l4 + int(be.Uint16(p[4:]))
		l.proto = p[6]
	default:
		return l, false
	}
	if l.l4 < l.l3+ip4Bytes || l.end > len(f) {
		return l, false
	}
	switch {
	case l.proto == protoTCP && l.l4+tcpBytes <= l.end:
		l.payload = l.l4 + int(f[l.l4+12]>>4)*4
		return l, l.payload >= l.l4+tcpBytes && l.payload <= l.end
	case l.proto == protoUDP && l.l4+udpBytes <= l.end:
		l.payload = l.l4 + udpBytes
		return l, true
	}
	return l, false
}

func (l *layers) addrs(f []byte) []byte {
	if l.v6 {
		return f[l.l3+8 : l.l3+ip6Bytes]
	}
	return f[l.l3+12 : l.l3+ip4Bytes]
}
