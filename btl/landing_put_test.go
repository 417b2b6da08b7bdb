package btl

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"gobtl/btl/internal/landing"
	"gobtl/fabric/mem"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// Chunks of puts, with a notice and without, and of answers to gets land; what they write is right
// whatever becomes of their packets, and what is around it stays as it was.
func TestPutLands(t *testing.T) {
	for _, net := range []struct {
		name string
		cfg  mem.Config
		ok   int // of a hundred chunks at least so many land on a fair network
	}{
		{"datagrams", mem.Config{MTUBytes: 1500}, 60},
		{"large datagrams", mem.Config{MTUBytes: 32 << 10}, 30},
	} {
		for _, rough := range []bool{false, true} {
			t.Run(fmt.Sprint(net.name, ", rough: ", rough), func(t *testing.T) {
				l := newRemoteLab(t, net.cfg, smallConfig(), rough)
				into := make([]byte, len(l.mem))
				for i := range 6 {
					size := len(l.mem) - 100 - 7000*i
					data := filled(size, byte(i))
					fill(l.mem, 0xEE)
					f, err := l.ep.PreparePut(data, l.region.Handle(), 50)
					if i%2 == 1 {
						f, err = l.ep.PreparePutNotice(data, l.region.Handle(), 50, noticeTag, nil)
					}
					if _, err := l.do(f, err); err != nil {
						t.Fatal(err)
					}
					want := bytes.Repeat([]byte{0xEE}, len(l.mem))
					copy(want[50:], data)
					if !bytes.Equal(l.mem, want) {
						t.Fatal("a put has written something else")
					}
					fill(into, 0xDD)
					want = bytes.Repeat([]byte{0xDD}, len(into))
					copy(want[9:], data)
					if _, err := l.do(l.ep.PrepareGet(into[9:][:size:size], l.region.Handle(),
						50)); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(into, want) {
						t.Fatal("a get has brought something else")
					}
				}
				for _, m := range l.mods {
					chunks := counter(m, CntRecvPutChunk)
					if n := counter(m, CntLandedPut); n == 0 || !rough && n*100 < chunks*uint64(net.ok) {
						t.Errorf("%d of %d chunks landed", n, chunks)
					}
				}
				l.rest()
			})
		}
	}
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

// putScript is a module of which the first chunk of a put of ten has come, whose poll of the data
// channel lands in the region from then on.
type putScript struct {
	*script
	mem    []byte
	region *Region
	room   uint32
	data   []byte
	n      seq.Num
}

func newPutScript(t *testing.T) *putScript {
	t.Helper()
	s := &putScript{script: newLab(t, mem.Config{MTUBytes: 1472}, 1, smallConfig()).newScript(0)}
	ep := s.connect()
	s.run(20)
	s.room = uint32(ep.MTUBytes() - frag.ChunkPutHeaderBytes)
	s.mem, s.data = make([]byte, 12*s.room), filled(int(10*s.room), 3)
	fill(s.mem, 0xEE)
	var err error
	if s.region, err = s.m.Expose(s.mem, RemoteWrite); err != nil {
		t.Fatal(err)
	}
	s.n = s.next
	s.put(0)
	s.run(4)
	if !s.m.rx.Direct.Plan.Due(&s.m.all.Port.Data) {
		t.Fatal("nothing is expected to land")
	}
	return s
}

// put sends chunks of the put, under the next numbers.
func (s *putScript) put(chunks ...uint32) {
	s.l.tb.Helper()
	for _, c := range chunks {
		s.putAs(s.n, c)
		s.n = s.n.Add(1)
	}
}

func (s *putScript) putAs(n seq.Num, chunk uint32) {
	s.l.tb.Helper()
	at := chunk * s.room
	s.raw(1, encode(frag.Header{
		Kind: frag.KindChunk, Flags: frag.FlagPut, Conn: s.conn, Seq: n, Number: uint32(n), FragID: 1,
		SizeBytes: uint32(len(s.data)), OffsetBytes: at,
		Handle: uint64(s.region.Handle()), PutOffset: uint64(s.room + at),
	}, s.data[at:][:s.room]))
}

// want compares the region: the chunks that have come, and of the others what was there before, or
// zeros.
func (s *putScript) want(t *testing.T, came ...uint32) {
	t.Helper()
	is := map[uint32]bool{}
	for _, c := range came {
		is[c] = true
	}
	for c := range uint32(12) {
		got := s.mem[c*s.room:][:s.room]
		switch {
		case c > 0 && is[c-1]:
			if !bytes.Equal(got, s.data[(c-1)*s.room:][:s.room]) {
				t.Errorf("chunk %d is not there", c-1)
			}
		case c == 0 || c == 11:
			if bytes.Count(got, []byte{0xEE}) != len(got) {
				t.Error("what is around the put has changed")
			}
		case bytes.Count(got, []byte{0xEE})+bytes.Count(got, []byte{0}) != len(got):
			t.Errorf("something stands in the place of chunk %d", c-1)
		}
	}
	if err := s.m.Check(); err != nil {
		t.Error(err)
	}
}

// What comes instead of the expected chunks is not seen in the region, nor lost; what came before
// its turn is not written over.
func TestPutLandsUnexpected(t *testing.T) {
	s := newPutScript(t)
	var got []string
	handle := func(_ *Endpoint, _ Tag, data []byte) { got = append(got, string(data)) }
	if err := s.m.Handle(1, handle); err != nil {
		t.Fatal(err)
	}
	secret := string(bytes.Repeat([]byte("secret"), 200))
	s.put(1, 2)
	s.raw(1, encode(frag.Header{
		Kind: frag.KindFrag, Conn: s.conn, Seq: s.n, Number: uint32(s.n), Tag: 1,
	}, []byte(secret)))
	s.n = s.n.Add(1)
	s.put(4) // 3 is late
	s.run(4)
	s.want(t, 0, 1, 2, 4)
	if len(got) != 1 || got[0] != secret {
		t.Fatalf("%d messages came, or altered", len(got))
	}
	if n := counter(s.m, CntLandedPut); n != 2 {
		t.Errorf("%d chunks landed, want 2", n)
	}
	s.run(landing.PausePolls)
	s.put(3) // behind which 4 came already: nothing may land there
	s.run(4)
	s.raw(1, []byte(secret))
	s.run(4)
	s.want(t, 0, 1, 2, 3, 4)
	s.put(5, 6, 7, 8, 9)
	s.run(4)
	s.want(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	if s.m.rx.Direct.Plan.Due(&s.m.all.Port.Data) {
		t.Error("more is expected to land behind the end of a put")
	}
}

// A region that is closed by a handler is not written to any more, whatever stands behind the
// handler's message in the batch.
func TestPutLandsUntilClose(t *testing.T) {
	s := newPutScript(t)
	closeIt := func(*Endpoint, Tag, []byte) {
		s.region.Close()
		fill(s.mem, 0x77)
	}
	if err := s.m.Handle(1, closeIt); err != nil {
		t.Fatal(err)
	}
	s.put(1)
	s.raw(1, encode(frag.Header{
		Kind: frag.KindFrag, Conn: s.conn, Seq: s.n, Number: uint32(s.n), Tag: 1,
	}, make([]byte, 1000)))
	s.n = s.n.Add(1)
	s.put(2, 3)
	pkts := s.run(4)
	if bytes.Count(s.mem, []byte{0x77}) != len(s.mem) {
		t.Error("the region was written to after its end")
	}
	if n := len(kinds(pkts, frag.KindNack)); n == 0 {
		t.Error("what came behind was not refused")
	}
	s.put(4)
	s.run(4)
	if bytes.Count(s.mem, []byte{0x77}) != len(s.mem) {
		t.Error("the region was written to later")
	}
}

// A region that is closed between two passes is not written to, though a chunk is expected there.
func TestPutLandsNotAfterClose(t *testing.T) {
	s := newPutScript(t)
	s.put(1)
	s.run(2)
	s.region.Close()
	fill(s.mem, 0x77)
	s.put(2, 3)
	s.run(4)
	if bytes.Count(s.mem, []byte{0x77}) != len(s.mem) {
		t.Error("the region was written to after its end")
	}
	if n := counter(s.m, CntLandedPut); n != 1 {
		t.Errorf("%d chunks landed, want 1", n)
	}
}

// Over a reliable fabric chunks of puts and of answers land, too.
func TestPutLandsCounted(t *testing.T) {
	const count, size = 6, 1 << 20
	r := newRelied(t, sim.Config{MTUBytes: 32 << 10}, Config{}, Config{})
	mem, data := make([]byte, count*size), filled(count*size, 5)
	region, err := r.mods[0].Expose(mem, RemoteAll)
	if err != nil {
		t.Fatal(err)
	}
	notices := 0
	if err := r.mods[0].Handle(noticeTag, func(*Endpoint, Tag, []byte) { notices++ }); err != nil {
		t.Fatal(err)
	}
	ep, into, ends := r.connect(1, 0), make([]byte, count*size), 0
	send := func(f *Fragment, err error) {
		if err != nil {
			t.Fatal(err)
		}
		f.Signal, f.OnDone = true, func(_ *Fragment, err error) {
			if ends++; err != nil {
				t.Error(err)
			}
		}
		if _, err := ep.Send(r.nw.Now(), f); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		part := data[i*size:][:size]
		send(ep.PreparePutNotice(part, region.Handle(), uint64(i*size), noticeTag, nil))
	}
	r.run(5 * time.Second)
	for i := range count {
		send(ep.PrepareGet(into[i*size:][:size], region.Handle(), uint64(i*size)))
	}
	r.run(5 * time.Second)
	if ends != 2*count || notices != count || !bytes.Equal(mem, data) || !bytes.Equal(into, data) {
		t.Errorf("%d ends, %d notices, or the bytes are altered", ends, notices)
	}
	for _, m := range r.mods {
		if landed, chunks := counter(m, CntLandedPut), counter(m, CntRecvPutChunk); landed*4 < chunks {
			t.Errorf("%d of %d chunks landed", landed, chunks)
		}
	}
}

// putStream has two modules send puts, or messages, of a size to each other for ever.
func putStream(tb testing.TB, size int, put bool) func() {
	b := newBench(tb, mem.Config{FreeRegions: true, MTUBytes: 32 << 10}, 2, Config{})
	region, err := b.mods[1].Expose(make([]byte, size), RemoteAll)
	if err != nil {
		tb.Fatal(err)
	}
	if err := b.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		tb.Fatal(err)
	}
	ep, msg, ended := b.connect(0, 1), make([]byte, size), 0
	onDone := func(_ *Fragment, err error) {
		if ended++; err != nil {
			tb.Error(err)
		}
	}
	return func() {
		prepare := func() (*Fragment, error) { return ep.Prepare(1, msg) }
		if put {
			prepare = func() (*Fragment, error) { return ep.PreparePut(msg, region.Handle(), 0) }
		}
		f, err := prepare()
		if err != nil {
			tb.Fatal(err)
		}
		f.OnDone, f.Signal = onDone, true
		if _, err := ep.Send(b.now, f); err != nil {
			tb.Fatal(err)
		}
		for want := ended + 1; ended < want; {
			b.now = b.now.Add(5 * time.Microsecond)
			for _, m := range b.mods {
				if _, err := m.Progress(b.now); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
}

// BenchmarkLandedPut is a put of 1 MiB beside a message of that size.
func BenchmarkLandedPut(b *testing.B) {
	for _, put := range []bool{false, true} {
		b.Run(map[bool]string{false: "message", true: "put"}[put], func(b *testing.B) {
			one := putStream(b, 1<<20, put)
			b.SetBytes(1 << 20)
			for b.Loop() {
				one()
			}
		})
	}
}

// Of puts of large packets, one behind the other, all but the first chunks land: the poll that
// brings the last chunk of one leaves the first of the next for another one, behind which the
// others of that land.
func TestPutsLand(t *testing.T) {
	for _, last := range []int{100, 30_000} { // bytes of the last chunk of each
		l := newRemoteLab(t, mem.Config{MTUBytes: 32 << 10}, smallConfig(), false)
		l.until("it is connected", time.Millisecond, time.Second, l.ep.Connected)
		l.rest()
		const puts = 12
		size := 2*(l.ep.MTUBytes()-frag.ChunkPutHeaderBytes) + last
		left := puts
		for i := range puts {
			f, err := l.ep.PreparePut(filled(size, byte(i)), l.region.Handle(), uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			f.Signal, f.OnDone = true, func(_ *Fragment, err error) {
				if left--; err != nil {
					t.Error(err)
				}
			}
			if _, err := l.ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
		}
		l.until("all are there", 20*time.Microsecond, time.Second, func() bool { return left == 0 })
		s := l.mods[1].counted()
		if n, chunks := s.Get(CntLandedPut), s.Get(CntRecvPutChunk); chunks != 3*puts ||
			n < 2*puts-2 {
			t.Errorf("%d of %d chunks landed, the last ones of %d bytes", n, chunks, last)
		}
		for i := range puts - 1 {
			if l.mem[i] != filled(1, byte(i))[0] {
				t.Fatalf("put %d has written something else", i)
			}
		}
		if want := filled(size, puts-1); !bytes.Equal(l.mem[puts-1:][:size], want) {
			t.Fatal("the last put has written something else")
		}
	}
}
