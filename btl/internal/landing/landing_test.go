package landing

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

const (
	testRoom  = 1000 // payload bytes of a chunk
	testDepth = 64
)

// bench is a Plan on a channel whose packets the test supplies.
type bench struct {
	t    *testing.T
	port *port.Port
	plan Plan[int]
	net  *scripted
	pool *frag.Pool
}

// scripted is a provider that writes the payloads of the packets of queue to the landing.
type scripted struct {
	fabric.Endpoint
	arena  *fabric.Arena
	queue  []frag.Header // each with PayloadLen bytes of the value fillOf
	mem    []byte
	head   int
	at     int  // bytes of mem that were written
	refuse bool // Land returns false
	free   []fabric.Buf
	limits []int // of the polls
}

func fillOf(h *frag.Header) byte { return byte(h.OffsetBytes/testRoom) + byte(h.FragID)*16 + 1 }

func (s *scripted) Land(mem []byte, headBytes int) bool {
	if s.refuse {
		return false
	}
	s.mem, s.head, s.at = mem, headBytes, 0
	return true
}

func (s *scripted) Poll(out []fabric.Completion) (n int, err error) {
	s.limits = append(s.limits, len(out))
	for ; n < len(out) && len(s.queue) > 0; n++ {
		h := s.queue[0]
		s.queue = s.queue[1:]
		buf := s.free[0]
		s.free = s.free[1:]
		b := s.arena.Bytes(buf)
		head := h.Encode(b)
		payload := bytes.Repeat([]byte{fillOf(&h)}, int(h.PayloadLen))
		whole := append(append([]byte{}, b[:head]...), payload...)
		out[n] = fabric.Completion{Op: fabric.OpRecv, Buf: buf, Len: uint32(len(whole))}
		rest := s.mem[min(s.at, len(s.mem)):]
		if s.mem == nil || len(whole) <= s.head || len(whole)-s.head > len(rest) {
			copy(b, whole)
			continue
		}
		copy(b, whole[:s.head])
		out[n].Landed, out[n].LandedOff = uint32(copy(rest, whole[s.head:])), uint32(s.at)
		s.at += len(whole) - s.head
	}
	return n, nil
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dom, err := mem.New(mem.Config{}).Open(fabric.DomainConfig{
		Buffers: 256 + port.ControlBuffers + 2*testDepth, BufferBytes: 2048,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dom.Close() })
	pool, err := frag.NewPool(frag.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, port: new(port.Port), pool: pool}
	if err = b.port.Open(dom, port.Config{
		SendBuffers: 256, RecvDepth: testDepth, CommandDepth: testDepth,
		CommandBytes: 512, DataBytes: 2048, PollBatch: 8,
		IdlePollEvery: 16, Reliable: true,
	}); err != nil {
		t.Fatal(err)
	}
	b.port.Data.Interpose(func(e fabric.Endpoint) fabric.Endpoint {
		b.net = &scripted{Endpoint: e, arena: &b.port.Arena}
		return b.net
	})
	for i := range fabric.Buf(64) {
		b.net.free = append(b.net.free, b.port.FirstReceive()+i)
	}
	b.plan.Init(&b.port.Data, b.net, &b.port.Arena, 100)
	return b
}

// peer returns the Expectation of a new peer.
func (b *bench) peer(of int) *Expectation[int] {
	asm := new(frag.Assembler)
	asm.Init(b.pool)
	return New(of, asm, false)
}

// chunk is the header of chunk i of count in fragment id.
func chunk(id, i, count uint32) frag.Header {
	return frag.Header{
		Kind: frag.KindChunk, Conn: 7, FragID: id, SizeBytes: count * testRoom,
		OffsetBytes: i * testRoom, PayloadLen: testRoom, FirstBytes: testRoom, ChunkBytes: testRoom,
		Seq: 1,
	}
}

// poll polls for up to limit packets into mem, or into the memory of the peer's message.
func (b *bench) poll(limit int, mem []byte) []fabric.Completion {
	b.t.Helper()
	if x := b.plan.Next(limit > 1); x != nil && mem == nil {
		mem = x.Message()
	} else if x == nil {
		mem = nil
	}
	got, err := b.plan.Poll(0, limit, mem)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.port.Data.Completions[:got]
}

// came is what the owner does with a chunk that has come in a receive buffer.
func (b *bench) came(x *Expectation[int], h frag.Header) {
	b.t.Helper()
	msg, err := x.asm.Add(&h, bytes.Repeat([]byte{fillOf(&h)}, testRoom), true)
	if err != nil {
		b.t.Fatal(err)
	}
	b.plan.ChunkCame(x, &h, msg != nil)
	if msg != nil {
		msg.Release()
	}
}

// whole is what a fragment of count chunks must contain.
func whole(id, count uint32) []byte {
	var all []byte
	for i := range count {
		h := chunk(id, i, count)
		all = append(all, bytes.Repeat([]byte{fillOf(&h)}, testRoom)...)
	}
	return all
}

// Expected chunks stay where the provider has written them, and complete the message.
func TestChunksStay(t *testing.T) {
	b := newBench(t)
	x := b.peer(1)
	b.came(x, chunk(1, 0, 5))
	if !b.plan.Due(&b.port.Data) || b.plan.Due(&b.port.Command) || b.plan.OneByOne(true) {
		t.Fatal("no landing is due, or the poll is for a single packet")
	}
	for i := range uint32(4) {
		h := chunk(1, 1+i, 5)
		h.Seq, h.Number = h.Seq.Add(i), i
		b.net.queue = append(b.net.queue, h)
	}
	comps := b.poll(8, nil)
	var msg *frag.Message
	for i := range comps {
		var h frag.Header
		if !b.plan.Match(&comps[i], &h) {
			t.Fatalf("chunk %d is not the expected one", i)
		}
		var err error
		if msg, err = b.plan.Accept(&h, true); err != nil {
			t.Fatal(err)
		}
	}
	if len(comps) != 4 || msg == nil {
		t.Fatalf("%d of 4 chunks, message %v", len(comps), msg)
	}
	if !bytes.Equal(msg.Bytes, whole(1, 5)) {
		t.Error("the message is altered")
	}
	b.done()
}

func (b *bench) done() {
	b.t.Helper()
	if b.plan.Check() == nil {
		b.t.Error("a poll in progress is not found")
	}
	b.plan.Done()
	if err := b.plan.Check(); err != nil {
		b.t.Error(err)
	}
}

// Each packet that is not the expected chunk is restored: its receive buffer holds what came, and
// landings pause.
func TestRestored(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(h *frag.Header)
	}{
		{"another fragment", func(h *frag.Header) { h.FragID++ }},
		{"another offset", func(h *frag.Header) { h.OffsetBytes += testRoom }},
		{"a put", func(h *frag.Header) { h.Flags |= frag.FlagPut }},
		{"no chunk", func(h *frag.Header) {
			*h = frag.Header{Kind: frag.KindFrag, Conn: 7, PayloadLen: 900}
		}},
	} {
		b := newBench(t)
		x := b.peer(1)
		b.came(x, chunk(1, 0, 5))
		h := chunk(1, 1, 5)
		c.alter(&h)
		b.net.queue = append(b.net.queue, h)
		comps := b.poll(8, nil)
		var got frag.Header
		if comps[0].Landed == 0 || b.plan.Match(&comps[0], &got) {
			t.Errorf("%s: %d bytes landed, and were taken for the expected chunk", c.name,
				comps[0].Landed)
		}
		b.plan.Restore(comps)
		payload, err := frag.Decode(b.port.Arena.Bytes(comps[0].Buf)[:comps[0].Len], &got)
		if err != nil || got.Kind != h.Kind || comps[0].Landed != 0 ||
			!bytes.Equal(payload, bytes.Repeat([]byte{fillOf(&h)}, int(h.PayloadLen))) {
			t.Errorf("%s: %v, %+v with %d bytes", c.name, err, got, len(payload))
		}
		b.done()
		for i := range PausePolls {
			if b.plan.Next(true) != nil {
				t.Errorf("%s: poll %d has a landing", c.name, i)
			}
		}
		if b.plan.Next(true) != x || x.Check(true) != nil {
			t.Errorf("%s: landings do not go on", c.name)
		}
	}
}

// After MissedMax polls with other packets nothing is expected, until a chunk comes.
func TestGivenUp(t *testing.T) {
	b := newBench(t)
	x := b.peer(1)
	b.came(x, chunk(1, 0, 9))
	for range MissedMax {
		for b.plan.Next(true) == nil {
			continue
		}
		b.net.queue = append(b.net.queue, chunk(8, 1, 9))
		comps := b.poll(8, nil)
		b.plan.Restore(comps)
		b.plan.Done()
	}
	if b.plan.Next(true) != nil || x.Check(true) != nil {
		t.Error("a chunk is expected still")
	}
	b.came(x, chunk(1, 1, 9))
	for range PausePolls {
		b.plan.Next(true)
	}
	if b.plan.Next(true) != x {
		t.Error("no chunk is expected behind one that came")
	}
}

// A region keeps the chunks of its put, and what other packets have written to it is zeroed.
func TestRegionScrubbed(t *testing.T) {
	b := newBench(t)
	x := b.peer(1)
	put := func(i uint32) frag.Header {
		h := chunk(3, i, 8)
		h.Flags, h.Handle, h.PutOffset = frag.FlagPut, 77, uint64(i)*testRoom
		h.FirstBytes, h.ChunkBytes, h.Tag = 0, 0, 0
		return h
	}
	h := put(0)
	b.plan.PutCame(x, &h)
	p, ok := x.Put()
	if !ok || p.Handle != 77 || p.At != testRoom || p.Bytes != 7*testRoom {
		t.Fatalf("expected at %+v, %v", p, ok)
	}
	region := bytes.Repeat([]byte{0xEE}, 8*testRoom)
	other := chunk(9, 0, 2)
	other.Flags = frag.FlagPut
	other.FirstBytes, other.ChunkBytes, other.Tag = 0, 0, 0
	b.net.queue = append(b.net.queue, put(1), other)
	comps := b.poll(8, region[testRoom:])
	var got frag.Header
	if !b.plan.Match(&comps[0], &got) || b.plan.Claim(&comps[0], region[:testRoom]) ||
		!b.plan.Claim(&comps[0], region[testRoom:][:testRoom]) {
		t.Fatalf("the chunk of the put is not in its place: %+v", got)
	}
	if b.plan.Match(&comps[1], &got) {
		t.Error("a chunk of another put is taken for the expected one")
	}
	b.plan.Restore(comps[1:])
	want := whole(3, 8)
	if !bytes.Equal(region[testRoom:2*testRoom], want[testRoom:2*testRoom]) {
		t.Error("the chunk of the put has gone")
	}
	if n := bytes.Count(region[2*testRoom:], []byte{fillOf(&other)}); n != 0 {
		t.Errorf("%d bytes of another packet stay in the region", n)
	}
	if region[0] != 0xEE || region[8*testRoom-1] != 0xEE {
		t.Error("bytes were zeroed that nobody had written to")
	}
	b.done()
	for i, c := range []struct {
		chunk uint32
		at    uint64 // 0: none
	}{{1, 2}, {3, 4}, {2, 4}, {4, 5}, {7, 0}} {
		h := put(c.chunk)
		b.plan.PutCame(x, &h)
		if p, _ := x.Put(); x.open != (c.at != 0) || x.open && p.At != c.at*testRoom {
			t.Errorf("%d: expected at %d: %v", i, p.At, x.open)
		}
	}
}

// A chunk of the put that belongs elsewhere is not accepted where it has landed. A chunk of an
// earlier put does not change what is expected.
func TestPutElsewhere(t *testing.T) {
	put := func(i uint32) frag.Header {
		return frag.Header{
			Kind: frag.KindChunk, Flags: frag.FlagPut | frag.FlagOp, Conn: 7, FragID: 3, Seq: 1,
			SizeBytes: 8 * testRoom, OffsetBytes: i * testRoom, PayloadLen: testRoom,
			Handle: 77, PutOffset: uint64(i) * testRoom, Op: 5, OpCode: frag.OpPart,
		}
	}
	for name, alter := range map[string]func(h *frag.Header){
		"none":           func(*frag.Header) {},
		"another region": func(h *frag.Header) { h.Handle++ },
		"another place":  func(h *frag.Header) { h.PutOffset++ },
		"another notice": func(h *frag.Header) { h.Op++ },
		"no notice":      func(h *frag.Header) { h.Flags, h.Op = frag.FlagPut, 0 },
	} {
		b := newBench(t)
		x := b.peer(1)
		first, next := put(2), put(3)
		b.plan.PutCame(x, &first)
		early := put(5)
		early.FragID--
		b.plan.PutCame(x, &early)
		alter(&next)
		b.net.queue = append(b.net.queue, next)
		comps := b.poll(8, make([]byte, 5*testRoom))
		var h frag.Header
		if got := b.plan.Match(&comps[0], &h); got != (name == "none") {
			t.Errorf("%s: accepted %v", name, got)
		}
	}
}

// The last chunk of a put of large packets may be small. The packets that follow are polled for one
// by one all the same.
func TestPutEndsSmall(t *testing.T) {
	for i, size := range []uint16{20_000, 1000} {
		b := newBench(t)
		x := b.peer(1)
		h := frag.Header{
			Kind: frag.KindChunk, Flags: frag.FlagPut, FragID: uint32(i + 1),
			SizeBytes: 2*uint32(size) + 9, PayloadLen: size,
		}
		for h.OffsetBytes < 2*uint32(size) {
			b.plan.PutCame(x, &h)
			h.OffsetBytes += uint32(size)
		}
		h.PayloadLen = 9
		b.plan.PutCame(x, &h)
		if one := b.plan.OneByOne(false); one != (size >= OneByOneBytesMin) {
			t.Errorf("a put in packets of %d bytes: one by one %v", size, one)
		}
	}
}

// A third large fragment of the same size and peer is expected.
func TestThirdOfItsSize(t *testing.T) {
	type came struct{ peer, size uint32 }
	for _, c := range []struct {
		name   string
		came   []came
		begins bool
	}{
		{"one", []came{{1, 100}}, false},
		{"two", []came{{1, 100}, {1, 100}}, true},
		{"two small ones", []came{{1, 99}, {1, 99}}, false},
		{"two of other sizes", []came{{1, 100}, {1, 101}}, false},
		{"two of other peers", []came{{1, 100}, {2, 100}}, false},
		{"two and one", []came{{1, 100}, {1, 100}, {1, 99}}, false},
		{"with another in between", []came{{1, 100}, {2, 100}, {1, 100}}, true},
		{"two behind others", []came{{2, 107}, {2, 107}, {1, 100}, {1, 100}}, true},
	} {
		b := newBench(t)
		peers := []*Expectation[int]{nil, b.peer(1), b.peer(2)}
		var x *Expectation[int]
		for i, w := range c.came {
			x = peers[w.peer]
			h := frag.Header{
				SizeBytes: w.size, FragID: ^uint32(0) - 1 + uint32(i),
				ChunkBytes: OneByOneBytesMin - frag.ChunkHeaderBytes,
			}
			b.plan.ChunkCame(x, &h, true)
			if x.begins && x.fragID != h.FragID+1 {
				t.Errorf("%s: fragment %d is expected behind %d", c.name, x.fragID, h.FragID)
			}
		}
		if x.begins != c.begins || b.plan.Due(&b.port.Data) != c.begins || !b.plan.justWhole {
			t.Errorf("%s: %+v, %+v", c.name, b.plan, *x)
		}
	}
}

// With two senders in turn, the landing is planned for the other sender within a few turns. An
// Expectation that has ended is not planned for.
func TestTurnsAndEnd(t *testing.T) {
	b := newBench(t)
	a, c := b.peer(1), b.peer(2)
	for i := range uint32(6) {
		for _, x := range []*Expectation[int]{a, c} {
			b.plan.Next(false)
			b.came(x, chunk(1, i, 9))
		}
	}
	if x := b.plan.Next(true); x != a {
		t.Fatalf("the next chunk is expected from %+v", x)
	}
	b.plan.Done()
	a.End()
	if x := b.plan.Next(true); x != nil || b.plan.Due(&b.port.Data) {
		t.Errorf("a chunk is expected from an endpoint that has ended: %+v", x)
	}
	b.plan.Next(false)
	b.came(c, chunk(1, 6, 9))
	if b.plan.Next(true) != c || a.Check(true) == nil {
		t.Error("the remaining sender's chunks do not land")
	}
}

// The polls of a fabric that loses nothing are limited to the chunks that fit the landing.
func TestLimit(t *testing.T) {
	for _, counted := range []bool{false, true} {
		b := newBench(t)
		x := b.peer(1)
		x.counted = counted
		b.came(x, chunk(1, 0, 4))
		b.poll(8, nil)
		want := 8
		if counted {
			want = 3
		}
		n := b.net
		if n.limits[0] != want || n.head != frag.ChunkHeaderBytes || len(n.mem) != 3*testRoom {
			t.Errorf("counted %v: a poll for %d packets, a landing of %d bytes", counted, n.limits[0],
				len(n.mem))
		}
	}
}

// All completions of a poll are taken before a landing is used, unless the provider lets go of the
// landing. A provider with more completions than operations is broken.
func TestSurplus(t *testing.T) {
	b := newBench(t)
	x := b.peer(1)
	b.came(x, chunk(1, 0, 40))
	b.net.queue = []frag.Header{chunk(1, 1, 40), chunk(1, 2, 40), chunk(1, 3, 40)}
	if comps := b.poll(2, nil); len(comps) != 2 || b.plan.Armed || !b.port.Data.Left {
		t.Errorf("%d completions of 2, armed %v", len(comps), b.plan.Armed)
	}
	b.net.queue = []frag.Header{chunk(1, 3, 40), chunk(1, 4, 40), chunk(1, 5, 40)}
	mem := b.plan.Next(true).Message()
	if err := b.plan.land(mem); err != nil {
		t.Fatal(err)
	}
	b.net.refuse = true
	b.plan.Next(true)
	if _, err := b.plan.Poll(0, 2, mem); !errors.Is(err, ErrSurplus) {
		t.Errorf("a provider that does not let go of its landing: %v", err)
	}
}

// Check finds Expectations that contradict themselves.
func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(x *Expectation[int]){
		"ended":             func(x *Expectation[int]) { x.End() },
		"begins unexpected": func(x *Expectation[int]) { x.begins = true },
		"missed":            func(x *Expectation[int]) { x.open, x.missed = true, MissedMax },
	} {
		b := newBench(t)
		x := b.peer(1)
		if err := x.Check(true); err != nil {
			t.Fatal(err)
		}
		if spoil(x); x.Check(true) == nil {
			t.Errorf("%s: not found", name)
		}
	}
	b := newBench(t)
	x := b.peer(1)
	b.came(x, chunk(1, 0, 3))
	if x.Check(true) != nil || x.Check(false) == nil {
		t.Error("a chunk that cannot land is expected, and not found")
	}
}
