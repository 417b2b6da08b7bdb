package offload

// Splitter cuts frames. One at a time: Begin, then Write for each of Count.
type Splitter struct {
	frame   []byte
	l       layers
	count   int
	size    int // of a piece's payload
	payload []byte
	head    int // bytes before the payload
}

// largestPacket is the largest size in the length field of IP. Large frames of this package keep to
// it including the Ethernet header, because a bridge segments larger frames before it passes them
// to a device.
const largestPacket = 1<<16 - 1

// Begin takes a frame with its header. A frame that is not large is one piece, whose checksum is
// completed. The frame may be written to, and must stay until the last Write. The error is
// ErrFrame.
func (s *Splitter) Begin(frame []byte, h Header) error {
	*s = Splitter{frame: frame, count: 1}
	if h.Type == None {
		if h.Flags&NeedsChecksum != 0 {
			return completeChecksum(frame, h)
		}
		return nil
	}
	// The kernel may set the length fields of a frame beyond 64 KiB to zero. Such frames do not
	// occur here.
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
	// The field holds the pseudo header's sum, which counts with the rest.
	c := ^fold(sum(f[start:], 0))
	if c == 0 {
		c = 0xFFFF // zero would say that UDP has none; for TCP it is the same number
	}
	be.PutUint16(f[at:], c)
	return nil
}

// Count is the number of frames.
func (s *Splitter) Count() int { return s.count }

// Largest is the size of the first frame; only the last may be smaller.
func (s *Splitter) Largest() int {
	if s.count == 1 && s.size == 0 {
		return len(s.frame)
	}
	return s.head + min(s.size, len(s.payload))
}

// Last is the size of the last frame.
func (s *Splitter) Last() int {
	if s.count == 1 {
		return s.Largest()
	}
	return s.head + len(s.payload) - (s.count-1)*s.size
}

// Write writes frame i, 0 to Count-1, to dst, which has room for Largest, and returns its size.
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
