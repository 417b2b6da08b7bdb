package offload

import "bytes"

const (
	groupsMax = 8 // maximum number of flows joined at the same time
	headMax   = 160

	// FramesMax is the largest number of frames that a Joiner joins into one large frame. For UDP, the
	// kernel limits the number of frames to UDP_MAX_SEGMENTS. UDP_MAX_SEGMENTS is 128 in Linux 6.18
	// and in Debian's Linux 6.1, and 64 (FramesOld) in older kernels.
	FramesMax = 128
	// FramesOld is the value of UDP_MAX_SEGMENTS in older Linux kernels, in which it is smaller than
	// FramesMax.
	FramesOld = 64
)

// Joined is a frame for the device. Joined consists of a virtio_net_hdr and of the frame's bytes in
// several parts. A frame that was not joined has one part.
type Joined struct {
	Header Header
	Parts  [][]byte // for several frames: their common header, and then their payloads
	Bytes  int
	Frames int
}

// Joiner joins frames of the same flow. The caller of Add must not change or reuse the
// memory of an added frame until Flush has returned.
type Joiner struct {
	// The Joiner calls Emit for each frame that is ready for the device. The Joiner emits the frames
	// of a flow in the order of their arrival. The argument of Emit is valid only during the call of
	// Emit.
	Emit func(*Joined)
	// NoTCP and NoUDP disable the joining of TCP and UDP frames, for a device that does not accept
	// large frames.
	NoTCP, NoUDP bool
	// UDPFrames is the largest number of UDP frames that the Joiner joins into one large frame, up to
	// FramesMax. A UDPFrames of 0 means FramesMax.
	UDPFrames int

	groups [groupsMax]group
	used   int
	single Joined
	one    [1][]byte
}

// The type "group" is a large frame to which received frames are being added.
type group struct {
	out    Joined
	first  []byte
	l      layers
	size   int  // payload bytes of each frame except the last
	closed bool // ended by a smaller frame or by the TCP flag PSH
	most   int  // maximum number of frames
	parts  [FramesMax + 1][]byte
	head   [headMax]byte
}

// Add adds the next received frame. During Add, the Joiner can call Emit for the new frame and for
// frames from earlier calls of Add.
func (j *Joiner) Add(f []byte) {
	l, ok := dissect(f)
	if !ok || l.payload > headMax || l.proto == protoTCP && j.NoTCP || l.proto == protoUDP && j.NoUDP {
		j.pass(f)
		return
	}
	g := j.find(f, &l)
	joins := mayJoin(f, &l)
	if g != nil {
		if joins && g.follows(f, &l) && valid(f, &l) {
			g.append(f, &l)
			return
		}
		j.emit(g)
		j.drop(g)
	}
	if !joins || !valid(f, &l) {
		j.pass(f)
		return
	}
	if j.used == groupsMax {
		j.emit(&j.groups[0])
		j.drop(&j.groups[0])
	}
	g = &j.groups[j.used]
	g.begin(f, &l)
	if g.most = FramesMax; l.proto == protoUDP && j.UDPFrames > 0 {
		g.most = min(j.UDPFrames, FramesMax)
	}
	j.used++
}

// Flush calls Emit for all added frames for which the Joiner has not yet called Emit.
func (j *Joiner) Flush() {
	for i := range j.used {
		j.emit(&j.groups[i])
	}
	j.used = 0
}

// pass emits a frame unchanged.
func (j *Joiner) pass(f []byte) {
	j.one[0] = f
	j.single = Joined{Parts: j.one[:], Bytes: len(f), Frames: 1}
	j.Emit(&j.single)
}

// drop removes a group.
func (j *Joiner) drop(g *group) {
	j.used--
	last := &j.groups[j.used]
	if g != last {
		n := len(last.out.Parts)
		copy(g.parts[:n], last.parts[:n])
		g.first, g.l, g.size, g.closed, g.most = last.first, last.l, last.size, last.closed, last.most
		g.out = last.out
		g.out.Parts = g.parts[:n]
	}
}

func (j *Joiner) find(f []byte, l *layers) *group {
	for i := range j.used {
		g := &j.groups[i]
		if g.l.l3 == l.l3 && g.l.l4 == l.l4 && g.l.v6 == l.v6 && g.l.proto == l.proto &&
			bytes.Equal(g.first[:ethBytes], f[:ethBytes]) &&
			bytes.Equal(g.l.addrs(g.first), l.addrs(f)) &&
			be.Uint32(g.first[l.l4:]) == be.Uint32(f[l.l4:]) {
			return g
		}
	}
	return nil
}

// mayJoin reports whether the headers of a frame allow the Joiner to join it with frames of the
// same flow.
func mayJoin(f []byte, l *layers) bool {
	if l.payload == l.end || l.end != len(f) && l.end-l.l3 > 46 {
		return false // no payload, or more trailing bytes than Ethernet padding
	}
	if !l.v6 && (l.l4 != l.l3+ip4Bytes || be.Uint16(f[l.l3+6:]) != 0x4000) {
		return false // IP options, or fragmentation is allowed
	}
	return l.proto == protoUDP || f[l.l4+13]&^flagPSH == flagACK
}

func valid(f []byte, l *layers) bool {
	if !l.v6 && fold(sum(f[l.l3:l.l4], 0)) != 0xFFFF {
		return false
	}
	if l.proto == protoUDP && (be.Uint16(f[l.l4+6:]) == 0 ||
		int(be.Uint16(f[l.l4+4:])) != l.end-l.l4) {
		return false
	}
	return fold(sum(f[l.l4:l.end], pseudo(l.addrs(f), l.proto, l.end-l.l4))) == 0xFFFF
}

func (g *group) begin(f []byte, l *layers) {
	g.first, g.l, g.size = f, *l, l.end-l.payload
	g.closed = l.proto == protoTCP && f[l.l4+13]&flagPSH != 0
	g.parts[0], g.parts[1] = f[:l.payload], f[l.payload:l.end]
	g.out = Joined{Parts: g.parts[:2], Bytes: l.end, Frames: 1}
}

// The method "follows" reports whether a frame continues the group. A frame continues a group if it
// has the same headers as the group's frames and, for TCP, the next sequence number.
func (g *group) follows(f []byte, l *layers) bool {
	n := l.end - l.payload
	k := g.out.Frames
	if g.closed || n > g.size || k >= g.most || l.payload != g.l.payload ||
		g.out.Bytes+n > largestPacket {
		return false
	}
	a, b := g.first, f
	if l.v6 {
		if be.Uint32(a[l.l3:]) != be.Uint32(b[l.l3:]) || a[l.l3+7] != b[l.l3+7] {
			return false
		}
	} else if a[l.l3+1] != b[l.l3+1] || a[l.l3+8] != b[l.l3+8] ||
		be.Uint16(b[l.l3+4:]) != be.Uint16(a[l.l3+4:])+uint16(k) {
		return false
	}
	if !bytes.Equal(a[ethBytes:l.l3], b[ethBytes:l.l3]) {
		return false
	}
	if l.proto == protoUDP {
		return true
	}
	a, b = a[l.l4:l.payload], b[l.l4:l.payload]
	return be.Uint32(b[4:]) == be.Uint32(a[4:])+uint32(k*g.size) &&
		be.Uint32(a[8:]) == be.Uint32(b[8:]) && // acknowledgement
		a[12] == b[12] && be.Uint16(a[14:]) == be.Uint16(b[14:]) && // offset, window
		bytes.Equal(a[18:], b[18:]) // urgent pointer, options
}

func (g *group) append(f []byte, l *layers) {
	n := l.end - l.payload
	push := l.proto == protoTCP && f[l.l4+13]&flagPSH != 0
	g.closed = n < g.size || push
	k := len(g.out.Parts)
	g.parts[k] = f[l.payload:l.end]
	g.out.Parts = g.parts[:k+1]
	g.out.Bytes += n
	g.out.Frames++
	if push {
		g.first[l.l4+13] |= flagPSH // emit copies the header from the first frame
	}
}

// emit passes a group to Emit. If the group has several frames, the method "emit" first writes the
// headers of the large frame into which the frames are joined.
func (j *Joiner) emit(g *group) {
	if g.out.Frames == 1 {
		j.pass(g.first)
		return
	}
	l := &g.l
	head := g.head[:l.payload]
	copy(head, g.first)
	if l.v6 {
		be.PutUint16(head[l.l3+4:], uint16(g.out.Bytes-l.l4))
	} else {
		be.PutUint16(head[l.l3+2:], uint16(g.out.Bytes-l.l3))
		be.PutUint16(head[l.l3+10:], 0)
		be.PutUint16(head[l.l3+10:], ^fold(sum(head[l.l3:l.l4], 0)))
	}
	h := Header{
		Flags: NeedsChecksum, HeaderLen: uint16(l.payload), Size: uint16(g.size),
		ChecksumStart: uint16(l.l4),
	}
	switch {
	case l.proto == protoUDP:
		h.Type, h.ChecksumOffset = UDP4, 6
		be.PutUint16(head[l.l4+4:], uint16(g.out.Bytes-l.l4))
	case l.v6:
		h.Type, h.ChecksumOffset = TCP6, 16
	default:
		h.Type, h.ChecksumOffset = TCP4, 16
	}
	be.PutUint16(head[l.l4+int(h.ChecksumOffset):],
		fold(pseudo(l.addrs(head), l.proto, g.out.Bytes-l.l4)))
	g.out.Header = h
	g.parts[0] = head
	j.Emit(&g.out)
}
