package btl

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/peer"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// nullDomain is a fabric that takes everything and completes it, and delivers what a benchmark
// writes into the posted buffers: what is measured above it is only the module.
type nullDomain struct {
	arena     fabric.Arena
	info      fabric.Info
	caps      fabric.Caps
	endpoints []*nullEndpoint
	regions   int
}

type nullEndpoint struct {
	d      *nullDomain
	bufs   []fabric.Buf // posted, the last one is filled first
	posts  int
	sends  int
	last   fabric.Send
	arrive func(out []fabric.Completion) int

	landing, landed int  // bytes that may land, and have
	surplus         bool // what has landed was not polled yet
}

func newNullDomain(tb testing.TB, cfg Config, mtu int, gather bool) *nullDomain {
	tb.Helper()
	d := &nullDomain{
		info: fabric.Info{Provider: "null", MTUBytes: mtu, RxDepth: 4096, TxDepth: 4096},
		caps: fabric.Caps{
			MTUBytes: mtu, InjectBytes: mtu, Landing: true, TxDepth: 4096, RxDepth: 4096, RecvCapacity: 4096,
			Gather: gather, FreeRegions: gather,
		},
	}
	dc, err := cfg.DomainConfig(d.info)
	if err != nil {
		tb.Fatal(err)
	}
	stride := (dc.BufferBytes+63)&^63 + 64
	d.arena, err = fabric.NewArena(make([]byte, dc.Buffers*stride), dc.Buffers, stride, 0,
		dc.BufferBytes)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func (d *nullDomain) Info() fabric.Info                            { return d.info }
func (d *nullDomain) Arena() fabric.Arena                          { return d.arena }
func (d *nullDomain) Insert([]byte) (fabric.Addr, error)           { return 1, nil }
func (d *nullDomain) Remove(fabric.Addr) error                     { return nil }
func (d *nullDomain) DeregisterRegion(fabric.Region) error         { d.regions--; return nil }
func (d *nullDomain) Close() error                                 { return nil }
func (d *nullDomain) RegisterRegion([]byte) (fabric.Region, error) { d.regions++; return 1, nil }

func (d *nullDomain) OpenEndpoint(fabric.EndpointConfig) (fabric.Endpoint, error) {
	e := &nullEndpoint{d: d, bufs: make([]fabric.Buf, 0, 4096)}
	d.endpoints = append(d.endpoints, e)
	return e, nil
}

func (e *nullEndpoint) Caps() fabric.Caps { return e.d.caps }
func (e *nullEndpoint) Name() []byte      { return []byte("nullname") }
func (e *nullEndpoint) Close() error      { return nil }

func (e *nullEndpoint) Post(sends []fabric.Send) (int, error) {
	e.posts++
	e.sends += len(sends)
	e.last = sends[len(sends)-1]
	return len(sends), nil
}

func (e *nullEndpoint) Recv(bufs []fabric.Buf) (int, error) {
	e.bufs = append(e.bufs, bufs...)
	return len(bufs), nil
}

func (e *nullEndpoint) Poll(out []fabric.Completion) (int, error) {
	if e.arrive == nil {
		return 0, nil
	}
	return e.arrive(out), nil
}

// Land implements fabric.Lander, without writing anything.
func (e *nullEndpoint) Land(mem []byte, _ int) bool {
	if e.surplus {
		return false
	}
	e.landing, e.landed = len(mem), 0
	return true
}

// land says of the last n bytes of a packet that they landed, if they fit.
func (e *nullEndpoint) land(out *fabric.Completion, n int) {
	if e.landed+n <= e.landing {
		out.Landed, out.LandedOff = uint32(n), uint32(e.landed)
		e.landed += n
	}
}

// fill hands out the packet that write puts into the next posted buffer.
func (e *nullEndpoint) fill(out *fabric.Completion, write func(b []byte) int) {
	n := len(e.bufs) - 1
	b := e.bufs[n]
	e.bufs = e.bufs[:n]
	*out = fabric.Completion{
		Buf: b, Op: fabric.OpRecv, Len: uint32(write(e.d.arena.Bytes(b))), From: fabric.AddrUnknown,
	}
}

// nullBench is a module on a null fabric with one connected endpoint.
type nullBench struct {
	tb        testing.TB
	d         *nullDomain
	m         *Module
	ep        *Endpoint
	cmd, data *nullEndpoint
	now       Time
	hdr       frag.Header
}

const nullPeerFirst = seq.Num(1000)

func newNullBench(tb testing.TB, mtu int, gather bool, cfg Config) *nullBench {
	tb.Helper()
	// The null peer acknowledges whatever has a number, so nothing may be withheld from it.
	cfg.Random = func() uint64 { return 1<<32 | numbers.SkipEvery }
	d := newNullDomain(tb, cfg, mtu, gather)
	m, err := Open(d, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil || d.regions != 0 {
			tb.Errorf("close: %v, %d regions registered", err, d.regions)
		}
	})
	ep, err := m.all.Handshakes.Connect(&frag.Name{
		Incarnation: 7, Command: []byte("nullname"), Data: []byte("nullname"), CommandBytes: 768,
		MTUBytes: uint16(mtu),
	})
	if err != nil {
		tb.Fatal(err)
	}
	m.all.Handshakes.Bind(ep, &frag.Header{Seq: nullPeerFirst}, &frag.Hello{
		Incarnation: 7, Tag: 99, WindowPkts: 4096, FragBytesMax: 1 << 30,
		MTUBytes: uint16(mtu), CommandBytes: 768, Credit: 4095,
	})
	ep.ID.Handshake.Proven = frag.ProvenAll
	m.all.Handshakes.OnPacket(ep)
	b := &nullBench{
		tb: tb, d: d, m: m, ep: endpointOf(ep), cmd: d.endpoints[0], data: d.endpoints[1], now: 1,
	}
	b.pass()
	return b
}

func (b *nullBench) pass() {
	b.now = b.now.Add(2 * time.Microsecond)
	if _, err := b.m.Progress(b.now); err != nil {
		b.tb.Fatal(err)
	}
}

// acknowledge has the next pass receive an ACK of everything that was sent.
func (b *nullBench) acknowledge() {
	_, next := b.ep.c.Snd.Window()
	b.cmd.arrive = func(out []fabric.Completion) int {
		b.cmd.arrive = nil
		b.cmd.fill(&out[0], func(p []byte) int {
			b.hdr = frag.Header{
				Kind: frag.KindAck, Flags: frag.FlagAck, Conn: tagOf(b.ep), Ack: next - 1, Credit: 4095,
				CreditBytes: frag.CreditBytesAll,
			}
			return b.hdr.Encode(p)
		})
		return 1
	}
}

// measure runs op for the benchmark's time and reports the least processor time of the calling
// thread that it took, by the units that one op moves: on a machine that others use too, that says
// more than a mean by the clock.
func measure(b *testing.B, units int, unit string, op func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const repeat = 16 // hides the cost of the clock
	least := int64(1 << 62)
	b.ReportAllocs()
	n := 0
	before := threadNanoseconds(b)
	for b.Loop() {
		op()
		if n++; n == repeat {
			now := threadNanoseconds(b)
			least, before, n = min(least, now-before), now, 0
		}
	}
	if least < 1<<62 {
		b.ReportMetric(float64(least)/float64(repeat*units), "ns/"+unit)
	}
}

// BenchmarkSendSegment is the cost of a chunk of a large message: header, window, timer, batch,
// ACK.
func BenchmarkSendSegment(b *testing.B) {
	for _, c := range []struct {
		name   string
		mtu    int
		gather bool
	}{
		{"gather", 1472, true},
		{"copy", 1472, false},
		{"copy512", 512, false},
		{"gather64K", 65507, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			const segments = 44 * 16
			n := newNullBench(b, c.mtu, c.gather, Config{RecvDepth: 256})
			mem := make([]byte, segments*segmentRoom(n.ep.MTUBytes(), frag.KindChunk))
			ended := 0
			onDone := func(*Fragment, error) { ended++ }
			op := func() {
				f, err := n.ep.Prepare(1, mem)
				if err != nil {
					b.Fatal(err)
				}
				f.OnDone, f.Signal = onDone, true
				if _, err := n.ep.Send(n.ep.Now(), f); err != nil {
					b.Fatal(err)
				}
				for queued(n.ep) > 0 {
					n.pass()
					if n.ep.c.BulkRoom() <= 0 { // a window that begins small and grows
						n.acknowledge()
					}
				}
				n.acknowledge()
				n.pass()
			}
			for range 32 { // until the window is what it stays
				op()
			}
			sent := n.data.sends
			ended = 0
			measure(b, segments, "segment", op)
			// A long run has a few packets more: questions about the path.
			least, packets := b.N*segments, n.data.sends-sent
			if ended != b.N || packets < least || packets > least+least/100 {
				b.Fatalf("%d fragments ended, %d packets", ended, packets)
			}
			b.ReportMetric(float64(b.N*segments)/float64(n.data.posts), "segments/post")
		})
	}
}

// BenchmarkReceiveSegment is the cost of a chunk that arrives: decode, endpoint, window,
// reassembly, ACK, and writing its header, which the benchmark does.
func BenchmarkReceiveSegment(b *testing.B) {
	for _, c := range []struct {
		name  string
		mtu   int
		lands bool
	}{{"1472", 1472, false}, {"512", 512, false}, {"landed", 1472, true}} {
		b.Run(c.name, func(b *testing.B) {
			const segments = 704
			n := newNullBench(b, c.mtu, false, Config{})
			if !c.lands {
				n.m.rx.Direct.Plan = landing.Plan[*peer.Endpoint]{}
			}
			got := 0
			n.m.Handle(1, func(*Endpoint, Tag, []byte) { got++ })
			room := segmentRoom(c.mtu, frag.KindChunk)
			next, id := nullPeerFirst, uint32(0)
			left := 0
			write := func(p []byte) int {
				offset := uint32((segments - left) * room)
				if frag.SeqOf(p) == 0 { // for the first time
					n.hdr = frag.Header{
						Kind: frag.KindChunk, Conn: tagOf(n.ep), Tag: 1, SizeBytes: uint32(segments * room),
						FirstBytes: uint16(room), ChunkBytes: uint16(room),
						PayloadLen: uint16(room),
					}
					n.hdr.Encode(p)
				}
				binary.LittleEndian.PutUint32(p[12:], uint32(next)) // packet and sequence number go in step
				binary.LittleEndian.PutUint32(p[16:], uint32(next))
				binary.LittleEndian.PutUint32(p[32:], id)
				binary.LittleEndian.PutUint32(p[40:], offset)
				next++
				left--
				return frag.ChunkHeaderBytes + room
			}
			n.data.arrive = func(out []fabric.Completion) int {
				k := 0
				for ; k < len(out) && left > 0; k++ {
					n.data.fill(&out[k], write)
					n.data.land(&out[k], room)
				}
				return k
			}
			op := func() {
				id++
				left = segments
				for left > 0 {
					n.pass()
				}
			}
			op()
			got = 0
			measure(b, segments, "segment", op)
			if got != b.N {
				b.Fatalf("%d fragments delivered of %d", got, b.N)
			}
		})
	}
}

// BenchmarkSendMessage8 is the cost of a tiny message in a burst of 64, by Alloc and Send and by
// SendImmediate.
func BenchmarkSendMessage8(b *testing.B) {
	for _, c := range []struct {
		name      string
		immediate bool
		packBytes int
	}{{"send", false, 0}, {"immediate", true, 0}, {"apart", false, 1}} {
		b.Run(c.name, func(b *testing.B) {
			const burst = 64
			n := newNullBench(b, 1472, true, Config{PackBytes: c.packBytes})
			msg := make([]byte, 8)
			op := func() {
				for range burst {
					if c.immediate {
						if err := n.ep.SendImmediate(n.ep.Now(), 1, msg); err != nil {
							b.Fatal(err)
						}
						continue
					}
					f, err := n.ep.Alloc(1, len(msg))
					if err != nil {
						b.Fatal(err)
					}
					copy(f.Bytes(), msg)
					if _, err := n.ep.Send(n.ep.Now(), f); err != nil {
						b.Fatal(err)
					}
				}
				n.pass()
				n.acknowledge()
				n.pass()
			}
			op()
			measure(b, burst, "message", op)
		})
	}
}

// BenchmarkReceivePack is the cost of a message that arrives in a pack of 64.
func BenchmarkReceivePack(b *testing.B) {
	const records = 64
	n := newNullBench(b, 1472, true, Config{})
	got := 0
	n.m.Handle(1, func(*Endpoint, Tag, []byte) { got++ })
	next := nullPeerFirst
	var body []byte
	for range records {
		rec := make([]byte, frag.RecordHeaderBytes+8)
		frag.PutRecord(rec, 1, make([]byte, 8))
		body = append(body, rec...)
	}
	arrived := false
	n.data.arrive = func(out []fabric.Completion) int {
		if arrived {
			return 0
		}
		arrived = true
		n.data.fill(&out[0], func(p []byte) int {
			n.hdr = frag.Header{
				Kind: frag.KindPack, Conn: tagOf(n.ep), Seq: next, PayloadLen: uint16(len(body)),
			}
			next++
			at := n.hdr.Encode(p)
			return at + copy(p[at:], body)
		})
		return 1
	}
	op := func() {
		arrived = false
		for !arrived {
			n.pass()
		}
	}
	op()
	got = 0
	measure(b, records, "message", op)
	if got != b.N*records {
		b.Fatalf("%d delivered of %d", got, b.N*records)
	}
}
