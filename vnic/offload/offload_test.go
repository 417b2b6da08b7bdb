package offload

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// kind is a sort of large frame.
type kind struct {
	name  string
	v6    bool
	udp   bool
	vlan  bool
	opts  int // bytes of TCP options
	flags byte
}

var kinds = []kind{
	{name: "tcp4", flags: flagACK},
	{name: "tcp4 options", opts: 12, flags: flagACK | flagPSH},
	{name: "tcp6", v6: true, flags: flagACK},
	{name: "tcp6 vlan", v6: true, vlan: true, opts: 12, flags: flagACK},
	{name: "udp4", udp: true},
	{name: "udp6 vlan", v6: true, udp: true, vlan: true},
}

// large makes a frame as the kernel gives it: the checksum is that of the pseudo header.
func (k kind) large(r *rand.Rand, payload, size int) ([]byte, Header) {
	f := make([]byte, 12, 256+payload)
	for i := range f {
		f[i] = byte(r.Uint32())
	}
	if k.vlan {
		f = be.AppendUint32(f, typeVLAN<<16|0x2064)
	}
	l4 := udpBytes
	proto := byte(protoUDP)
	if !k.udp {
		l4, proto = tcpBytes+k.opts, protoTCP
	}
	h := Header{Flags: NeedsChecksum, Size: uint16(size), ChecksumOffset: 6, Type: UDP4}
	var ip []byte
	if k.v6 {
		f = be.AppendUint16(f, typeIPv6)
		ip = make([]byte, ip6Bytes)
		ip[0], ip[6], ip[7] = 0x62, proto, 64
		be.PutUint16(ip[4:], uint16(l4+payload))
	} else {
		f = be.AppendUint16(f, typeIPv4)
		ip = make([]byte, ip4Bytes)
		ip[0], ip[6], ip[8], ip[9] = 0x45, 0x40, 64, proto
		be.PutUint16(ip[2:], uint16(ip4Bytes+l4+payload))
		be.PutUint16(ip[4:], 0xFFF0) // the identification wraps within the frame
	}
	addrs := ip[len(ip)-8:]
	if k.v6 {
		addrs = ip[8:]
	}
	for i := range addrs {
		addrs[i] = byte(r.Uint32())
	}
	if !k.v6 {
		be.PutUint16(ip[10:], ^fold(sum(ip, 0)))
	}
	f = append(f, ip...)
	h.ChecksumStart = uint16(len(f))
	tp := make([]byte, l4)
	for i := range tp {
		tp[i] = byte(r.Uint32())
	}
	if k.udp {
		be.PutUint16(tp[4:], uint16(l4+payload))
	} else {
		h.Type, h.ChecksumOffset = TCP4, 16
		if k.v6 {
			h.Type = TCP6
		}
		tp[12], tp[13] = byte(l4/4)<<4, k.flags
		be.PutUint32(tp[4:], 0xFFFFFF00) // the sequence wraps
	}
	be.PutUint16(tp[h.ChecksumOffset:], fold(pseudo(addrs, proto, l4+payload)))
	f = append(f, tp...)
	for range payload {
		f = append(f, byte(r.Uint32()))
	}
	return f, h
}

// slowSum is a checksum the plain way.
func slowSum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		s += w
	}
	for s>>16 != 0 {
		s = s&0xFFFF + s>>16
	}
	return uint16(s)
}

// checkWire checks the checksums and lengths of a frame of the wire with code of its own.
func checkWire(t *testing.T, what string, f []byte) {
	t.Helper()
	at := 12
	if be.Uint16(f[at:]) == typeVLAN {
		at += 4
	}
	v6 := be.Uint16(f[at:]) == typeIPv6
	ip := f[at+2:]
	var head []byte
	l4, proto := 20, ip[9]
	if v6 {
		l4, proto = 40, ip[6]
		head = slices.Clone(ip[8:40])
		if int(be.Uint16(ip[4:])) != len(ip)-40 {
			t.Fatalf("%s: IPv6 length %d of %d", what, be.Uint16(ip[4:]), len(ip)-40)
		}
	} else {
		head = slices.Clone(ip[12:20])
		if slowSum(ip[:20]) != 0xFFFF || int(be.Uint16(ip[2:])) != len(ip) {
			t.Fatalf("%s: IPv4 header %x", what, ip[:20])
		}
	}
	n := len(ip) - l4
	head = append(head, 0, proto, byte(n>>8), byte(n))
	if slowSum(append(head, ip[l4:]...)) != 0xFFFF {
		t.Fatalf("%s: checksum of protocol %d is wrong", what, proto)
	}
}

// TestSplitJoin cuts large frames of all kinds and sizes: each piece is right, and they join again
// to what was cut.
func TestSplitJoin(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for _, k := range kinds {
		for range 60 {
			size := 1 + r.IntN(1460)
			payload := size + 1 + r.IntN(min(60000, size*60))
			big, h := k.large(r, payload, size)
			var s Splitter
			if err := s.Begin(slices.Clone(big), h); err != nil {
				t.Fatalf("%s: %v", k.name, err)
			}
			var pieces [][]byte
			for i := range s.Count() {
				p := make([]byte, s.Largest())
				n := s.Write(p, i)
				if i == s.Count()-1 && n != s.Last() || i < s.Count()-1 && n != s.Largest() {
					t.Fatalf("%s: piece %d of %d has %d bytes", k.name, i, s.Count(), n)
				}
				checkWire(t, k.name, p[:n])
				pieces = append(pieces, p[:n])
			}
			var out []Joined
			var got [][]byte
			j := Joiner{Emit: func(f *Joined) {
				out = append(out, *f)
				got = append(got, slices.Concat(f.Parts...))
			}}
			for _, p := range pieces {
				j.Add(slices.Clone(p))
			}
			j.Flush()
			checkJoined(t, k, s.Count(), big, h, out, got)
		}
	}
}

func checkJoined(t *testing.T, k kind, count int, big []byte, h Header, out []Joined,
	got [][]byte,
) {
	t.Helper()
	frames := 0
	for _, f := range out {
		frames += f.Frames
	}
	if frames != count {
		t.Fatalf("%s: %d frames came out of %d", k.name, frames, count)
	}
	if count < 2 || count > FramesMax {
		return
	}
	h.HeaderLen = out[0].Header.HeaderLen
	if len(out) != 1 || out[0].Header != h || !bytes.Equal(got[0], big) {
		t.Fatalf("%s, %d pieces: joined to %d frames, header %+v, want %+v", k.name, count, len(out),
			out[0].Header, h)
	}
}

// TestJoinBounds: a large frame has as many frames as the kernel takes, and stays whole in front of
// a device, its Ethernet header included.
func TestJoinBounds(t *testing.T) {
	udp4 := kinds[4]
	for _, tc := range []struct {
		k                   kind
		count, size, frames int
		want                []int
	}{
		{udp4, 140, 100, 0, []int{128, 12}},
		{udp4, 140, 100, FramesOld, []int{64, 64, 12}},
		{kinds[0], 140, 100, FramesOld, []int{128, 12}},
		{udp4, 31, 2113, 0, []int{30, 1}},     // 65503 bytes
		{kinds[0], 31, 2113, 0, []int{30, 1}}, // the same
		{udp4, 31, 2112, 0, []int{31}},        // 65472
	} {
		var got []int
		j := Joiner{UDPFrames: tc.frames, Emit: func(f *Joined) { got = append(got, f.Frames) }}
		for i := range tc.count {
			j.Add(tc.k.frame(i, tc.size))
		}
		j.Flush()
		if !slices.Equal(got, tc.want) {
			t.Errorf("%d of %d bytes of %s: %v, want %v", tc.count, tc.size, tc.k.name, got, tc.want)
		}
	}
}

// frame is frame i of a flow, with a payload of a size.
func (k kind) frame(i, sizeBytes int) []byte {
	big, h := k.large(rand.New(rand.NewPCG(5, 6)), 2*sizeBytes, sizeBytes)
	const id, seq = 14 + 4, 14 + 20 + 4
	be.PutUint16(big[id:], uint16(i))
	if !k.udp {
		be.PutUint32(big[seq:], uint32(i*sizeBytes))
	}
	var s Splitter
	if err := s.Begin(big, h); err != nil {
		panic(err)
	}
	p := make([]byte, s.Largest())
	return p[:s.Write(p, 0)]
}

// TestJoinLeaves: what must not be joined is passed on as it came.
func TestJoinLeaves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, change := range map[string]func(second []byte){
		"sequence":     func(b []byte) { b[14+20+7]++ },
		"window":       func(b []byte) { b[14+20+14]++ },
		"ack number":   func(b []byte) { b[14+20+8]++ },
		"FIN":          func(b []byte) { b[14+20+13] |= flagFIN },
		"ECE":          func(b []byte) { b[14+20+13] |= flagECE },
		"options":      func(b []byte) { b[14+20+20]++ },
		"TOS":          func(b []byte) { b[14+1]++ },
		"TTL":          func(b []byte) { b[14+8]++ },
		"id":           func(b []byte) { b[14+5]++ },
		"DF":           func(b []byte) { b[14+6] = 0 },
		"source":       func(b []byte) { b[14+12]++ },
		"port":         func(b []byte) { b[14+20]++ },
		"Ethernet":     func(b []byte) { b[3]++ },
		"bad checksum": nil,
	} {
		k := kinds[1]
		k.flags = flagACK
		big, h := k.large(r, 2000, 1000)
		var s Splitter
		if err := s.Begin(big, h); err != nil {
			t.Fatal(err)
		}
		a, b := make([]byte, s.Largest()), make([]byte, s.Largest())
		s.Write(a, 0)
		s.Write(b, 1)
		if change == nil {
			b[len(b)-1] ^= 1
		} else {
			change(b)
			fix(b)
		}
		var got [][]byte
		j := Joiner{Emit: func(f *Joined) {
			if f.Frames != 1 || f.Header != (Header{}) {
				t.Errorf("%s: joined", name)
			}
			got = append(got, slices.Concat(f.Parts...))
		}}
		j.Add(a)
		j.Add(b)
		j.Flush()
		slices.SortFunc(got, bytes.Compare)
		want := [][]byte{a, b}
		slices.SortFunc(want, bytes.Compare)
		if len(got) != 2 || !bytes.Equal(got[0], want[0]) || !bytes.Equal(got[1], want[1]) {
			t.Errorf("%s: not passed on as it came", name)
		}
	}
}

// fix makes the checksums of an IPv4 frame of TCP right again.
func fix(f []byte) {
	ip := f[14:]
	be.PutUint16(ip[10:], 0)
	be.PutUint16(ip[10:], ^fold(sum(ip[:20], 0)))
	be.PutUint16(ip[20+16:], 0)
	be.PutUint16(ip[20+16:], ^fold(sum(ip[20:], pseudo(ip[12:20], protoTCP, len(ip)-20))))
}

// TestOrderInFlow: frames of a flow come out in the order in which they went in, also if some of
// them join and some do not.
func TestOrderInFlow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	var in [][]byte
	for flow := range 12 {
		k := kinds[0]
		big, h := k.large(r, 5000, 500)
		for i := range 6 {
			big[i] = byte(flow)
		}
		var s Splitter
		if err := s.Begin(big, h); err != nil {
			t.Fatal(err)
		}
		for i := range s.Count() {
			p := make([]byte, s.Largest())
			p = p[:s.Write(p, i)]
			if r.IntN(4) == 0 {
				p[14+20+15]++ // another window
				fix(p)
			}
			in = append(in, p)
		}
	}
	// Flows take turns, each in its order.
	next := map[byte][][]byte{}
	for _, p := range in {
		next[p[0]] = append(next[p[0]], p)
	}
	last := map[byte]uint32{}
	frames := 0
	j := Joiner{Emit: func(f *Joined) {
		b := slices.Concat(f.Parts...)
		seq := be.Uint32(b[14+20+4:])
		if was, ok := last[b[0]]; ok && int32(seq-was) <= 0 {
			t.Errorf("flow %d: %d after %d", b[0], seq, was)
		}
		last[b[0]] = seq
		frames += f.Frames
	}}
	for n := len(in); n > 0; {
		flow := byte(r.IntN(12))
		if len(next[flow]) > 0 {
			j.Add(next[flow][0])
			next[flow] = next[flow][1:]
			n--
		}
	}
	j.Flush()
	if frames != len(in) {
		t.Errorf("%d of %d frames", frames, len(in))
	}
}

func TestChecksum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for n := range 300 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
			if r.IntN(3) == 0 {
				b[i] = 0xFF
			}
		}
		if got, want := fold(sum(b, 0)), slowSum(b); got != want && got^want != 0xFFFF {
			t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
	// A single frame whose checksum was left to us.
	k := kinds[0]
	f, h := k.large(r, 100, 100)
	h.Type, h.Size = None, 0
	var s Splitter
	if err := s.Begin(f, h); err != nil || s.Count() != 1 {
		t.Fatal(err)
	}
	be.PutUint16(f[14+10:], 0)
	be.PutUint16(f[14+10:], ^fold(sum(f[14:34], 0)))
	checkWire(t, "single", f)
}

// FuzzBegin: no frame and header make it panic, and what is written stays within bounds.
func FuzzBegin(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, k := range kinds {
		b, h := k.large(r, 300, 100)
		var head [HeaderBytes]byte
		h.Put(head[:])
		f.Add(head[:], b)
	}
	f.Fuzz(func(t *testing.T, head, frame []byte) {
		if len(head) != HeaderBytes || len(frame) > 4096 {
			return
		}
		h := ParseHeader(head)
		var again [HeaderBytes]byte
		if h.Put(again[:]); !bytes.Equal(again[:], head) {
			t.Fatalf("%x is written as %x", head, again)
		}
		var s Splitter
		if s.Begin(frame, h) != nil {
			return
		}
		buf := make([]byte, s.Largest())
		total := 0
		j := Joiner{Emit: func(f *Joined) { total += f.Frames }}
		for i := range s.Count() {
			j.Add(slices.Clone(buf[:s.Write(buf, i)]))
		}
		if j.Flush(); total != s.Count() {
			t.Fatalf("%d of %d frames", total, s.Count())
		}
	})
}

func TestAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	big, h := kinds[0].large(r, 50000, 1400)
	bufs := make([][]byte, 40)
	for i := range bufs {
		bufs[i] = make([]byte, 1500)
	}
	var s Splitter
	j := Joiner{Emit: func(*Joined) {}}
	if n := testing.AllocsPerRun(20, func() {
		if s.Begin(big, h) != nil {
			t.Fatal("refused")
		}
		for i := range s.Count() {
			j.Add(bufs[i][:s.Write(bufs[i], i)])
		}
		j.Flush()
	}); n != 0 {
		t.Errorf("%v allocations for a large frame", n)
	}
}

// TestFlags: what TCP says once is said once: CWR with the first piece, FIN and PSH with the last.
func TestFlags(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	k := kind{flags: flagACK | flagCWR | flagFIN | flagPSH}
	big, h := k.large(r, 2500, 1000)
	h.Type |= ECN
	var s Splitter
	if err := s.Begin(big, h); err != nil || s.Count() != 3 {
		t.Fatalf("%d pieces, %v", s.Count(), err)
	}
	piece := make([]byte, s.Largest())
	for i, want := range []byte{flagACK | flagCWR, flagACK, flagACK | flagFIN | flagPSH} {
		s.Write(piece, i)
		if got := piece[14+20+13]; got != want {
			t.Errorf("piece %d has flags %#x, want %#x", i, got, want)
		}
	}
}
