package offload

// Splitter splits one large frame at a time into segments. The caller of a Splitter calls
// Begin, and then Write once for each of Count segments.
type Splitter struct {
	frame   []byte
	l       layers
	count   int
	size    int // payload bytes of a segment
	payload []byte
	head    int // size of the headers before the payload
}

// largestPacket is the largest value of the length field in an IP header. In package offload, a
// large frame, including its Ethernet header, has at most largestPacket bytes.
const largestPacket = 1<<16 - 1

// Begin starts to split a frame with the header h. A frame that is not large becomes one segment,
// whose checksum Begin completes. Begin can change bytes of the slice "frame". The caller of Begin
// must not change the frame until the last Write. If the frame does not match the header h, Begin
// returns ErrFrame.
func (s *Splitter) Begin(frame []byte, h Header) error {
	*s = Splitter{frame: frame, count: 1}
	if h.Type == None {
		if h.Flags&NeedsChecksum != 0 {
			return completeChecksum(frame, h)
		}
		return nil
	}
	l, ok := dissect(frame)
	want := uint8(protoTCP)
	kind := h.Type &^ ECN
	if kind == UDP4 {
		want = protoUDP
	}
	if !ok || l.proto != want || h.Size == 0 || kind == TCP4 && l.v6 || kind == TCP6 && !l.v6 ||
		kind == UDP || kind > UDP4 || l.end-l.l3 > largestPacket {
		return ErrFrame
	}
	s.l, s.size, s.head = l, int(h.Size), l.payload
	s.payload = frame[l.payload:l.end]
	s.count = max((len(s.payload)+s.size-1)/s.size, 1)
	return nil
}

// completeChecksum computes the checksum that the kernel has left to the network card.
func completeChecksum(f []byte, h Header) error {
	start, at := int(h.ChecksumStart), int(h.ChecksumStart)+int(h.ChecksumOffset)
	if start > len(f) || at+2 > len(f) || at < start {
		return ErrFrame
	}
	c := ^fold(sum(f[start:], 0))
	if c == 0 {
		c = 0xFFFF // 0 would mean no checksum in UDP; equal in TCP
	}
	be.PutUint16(f[at:], c)
	return nil
}

// Count returns the number of segments.
func (s *Splitter) Count() int { return s.count }

// Largest returns the size of the first segment in bytes, including headers. All segments except
// the last have the same size, and the last segment can be smaller.
func (s *Splitter) Largest() int {
	if s.count == 1 && s.size == 0 {
		return len(s.frame)
	}
	return s.head + min(s.size, len(s.payload))
}

// Last returns the size of the last segment in bytes, including headers.
func (s *Splitter) Last() int {
	if s.count == 1 {
		return s.Largest()
	}
	return s.head + len(s.payload) - (s.count-1)*s.size
}

// Write writes segment i, from 0 to Count()-1, to the slice "dst", and returns the size of the
// segment. The slice "dst" must have Largest() bytes or more.
func (s *Splitter) Write(dst []byte, i int) int {
	if s.size == 0 {
		return copy(dst, s.frame)
	}
	part := s.payload[i*s.size : min((i+1)*s.size, len(s.payload))]
	n := s.head + len(part)
	dst = dst[:n]
	copy(dst, s.frame[:s.head])
	copy(dst[s.head:], part)
	l := &s.l
	if l.v6 {
		be.PutUint16(dst[l.l3+4:], uint16(n-l.l4))
	} else {
		ip := dst[l.l3:l.l4]
		be.PutUint16(ip[2:], uint16(n-l.l3))
		be.PutUint16(ip[4:], be.Uint16(ip[4:])+uint16(i))
		be.PutUint16(ip[10:], 0)
		be.PutUint16(ip[10:], ^fold(sum(ip, 0)))
	}
	at := 6 // the checksum in UDP
	if l.proto == protoTCP {
		at = 16
		tcp := dst[l.l4:]
		be.PutUint32(tcp[4:], be.Uint32(tcp[4:])+uint32(i*s.size))
		if i < s.count-1 {
			tcp[13] &^= flagFIN | flagPSH
		}
		if i > 0 {
			tcp[13] &^= flagCWR
		}
	} else {
		be.PutUint16(dst[l.l4+4:], uint16(n-l.l4))
	}
	be.PutUint16(dst[l.l4+at:], 0)
	c := ^fold(sum(dst[l.l4:], pseudo(l.addrs(dst), l.proto, n-l.l4)))
	if c == 0 && l.proto == protoUDP {
		c = 0xFFFF
	}
	be.PutUint16(dst[l.l4+at:], c)
	return n
}
