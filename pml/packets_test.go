package pml

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gobtl/btl"
)

// counting is a comb that counts the bytes that are copied out of it and into it.
type counting struct {
	comb
	gathered, scattered *int
}

func (c counting) Gather(to []byte, at int) {
	*c.gathered += len(to)
	c.comb.Gather(to, at)
}

func (c counting) Scatter(from []byte, at int) {
	*c.scattered += len(from)
	c.comb.Scatter(from, at)
}

// stripes is a comb of size bytes in runs of 256 bytes, every second run of its memory.
func stripes(size int) counting {
	const run = 256
	mem := make([]byte, 2*size)
	for i := range mem {
		mem[i] = byte(i * i >> 8)
	}
	return counting{comb{mem, size / run, run, 2 * run}, new(int), new(int)}
}

// finish makes passes until both requests are done.
func finish(t *testing.T, step func() btl.Time, s, r *Request) {
	t.Helper()
	for i := 0; !r.Done() || !s.Done(); i++ {
		if step(); i > 1_000_000 {
			t.Fatal("it does not end")
		}
	}
	if s.Err() != nil || r.Err() != nil {
		t.Fatal(s.Err(), r.Err())
	}
}

// A strided message of 64 MiB is copied once into packets and once out of packets, and neither side
// allocates memory for a part of it that is worth mentioning.
func TestNothingIsStaged(t *testing.T) {
	step, a, b, to := memPair(t)
	const size = 64 << 20
	for name, kind := range map[string]struct{ out, in bool }{
		"both": {true, true}, "sender": {true, false}, "receiver": {false, true},
	} {
		out, in := stripes(size), stripes(size)
		clear(in.mem)
		want := make([]byte, size)
		out.comb.Gather(want, 0)
		s, r := Request{}, Request{}
		var data, room []byte
		if data = want; kind.out {
			s.Layout, data = out, nil
		}
		if room = in.mem[:size]; kind.in {
			r.Layout, room = in, nil
		}
		before := [2]Stats{a.Stats(), b.Stats()}
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		if err := b.Recv(step(), &r, nil, 1, exactly, room); err != nil {
			t.Fatal(err)
		}
		if err := a.Send(step(), &s, to, 1, data, Standard); err != nil {
			t.Fatal(err)
		}
		finish(t, step, &s, &r)
		runtime.ReadMemStats(&end)
		if n := end.TotalAlloc - start.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
		packed := a.Stats().SentPacked - before[0].SentPacked
		unpacked := b.Stats().ReceivedUnpacked - before[1].ReceivedUnpacked
		if packed != size || unpacked != size {
			t.Errorf("%s: %d bytes packed, %d unpacked", name, packed, unpacked)
		}
		if kind.out && *out.gathered != size || kind.in && *in.scattered != size {
			t.Errorf("%s: %d bytes gathered, %d scattered", name, *out.gathered, *in.scattered)
		}
		got := in.mem[:size]
		if kind.in {
			got = make([]byte, size)
			in.comb.Gather(got, 0)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: not what was sent", name)
		}
	}
}

// While a strided message is under way, a small message to the same peer waits for no more than the
// packets that are under way.
func TestPacketsLeaveRoom(t *testing.T) {
	step, a, b, to := memPair(t)
	out, in := stripes(16<<20), stripes(16<<20)
	s, r := Request{Layout: out}, Request{Layout: in}
	if err := b.Recv(step(), &r, nil, 1, exactly, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(step(), &s, to, 1, nil, Standard); err != nil {
		t.Fatal(err)
	}
	for b.Stats().ReceivedUnpacked == 0 {
		step()
	}
	var small, got Request
	room := make([]byte, 1000)
	if err := b.Recv(step(), &got, nil, 2, exactly, room); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(step(), &small, to, 2, room, Standard); err != nil {
		t.Fatal(err)
	}
	before := b.Stats().ReceivedUnpacked
	for !got.Done() {
		step()
	}
	if n := b.Stats().ReceivedUnpacked - before; n > 2*underBytesMax {
		t.Errorf("%d bytes came before a small message", n)
	}
	if s.Done() {
		t.Error("the large message was over first, which shows nothing")
	}
	finish(t, step, &s, &r)
}

// A sender that lies about the packets of a message loses its connection, and writes nothing beyond
// the message.
func TestLiesAboutPackets(t *testing.T) {
	const count, block = 25_000, 4
	const size = count * block
	for name, lie := range map[string]struct {
		h     head // its a is added to the receive's id
		bytes int
		moved uint64 // bytes that have come before
	}{
		"a fin":        {h: head{kind: kindFin}},
		"behind":       {h: head{kind: kindData, b: size}, bytes: 1},
		"across":       {h: head{kind: kindData, b: size - 3}, bytes: 4},
		"far":          {h: head{kind: kindData, b: 1 << 63}, bytes: 8},
		"no receive":   {h: head{kind: kindData, a: 1}, bytes: 8},
		"puts":         {h: head{kind: kindData, b: 8, c: 8}, bytes: 8},
		"twice":        {h: head{kind: kindData}, bytes: 8, moved: size - 7},
		"ends quietly": {h: head{kind: kindData, b: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step, a, b, to := memPair(t)
			in := comb{make([]byte, size), count, block, block}
			r := Request{Layout: in}
			if err := b.Recv(step(), &r, nil, 1, exactly, nil); err != nil {
				t.Fatal(err)
			}
			var s Request
			if err := a.Send(step(), &s, to, 1, make([]byte, size), Standard); err != nil {
				t.Fatal(err)
			}
			for i := 0; r.state != landing || r.id == 0; i++ {
				if step(); i > 10_000 {
					t.Fatal("not announced")
				}
			}
			r.moved = lie.moved
			lie.h.a += r.id
			packet := make([]byte, headMostSize+lie.bytes)
			lie.h.put(packet)
			p := r.Peer()
			b.arrive(p.Endpoint(), 0, packet[:lie.h.bytes()+lie.bytes])
			if !errors.Is(p.Err(), ErrProtocol) || !errors.Is(r.Err(), ErrPeer) {
				t.Errorf("peer: %v, receive: %v", p.Err(), r.Err())
			}
			if !bytes.Equal(in.mem, make([]byte, size)) {
				t.Error("it has written")
			}
		})
	}
}

// A send whose peer goes says whether its message may have been delivered.
func TestWhatIsKnownOfASend(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 2, Config{EnvelopesMax: 4})
	a, b := layers[0], layers[1]
	to := connected(t, step, a, b)
	begin := func(data []byte, tag uint64, mode Mode) *Request {
		r := new(Request)
		if err := a.Send(step(), r, to, tag, data, mode); err != nil {
			t.Fatal(err)
		}
		return r
	}
	large := make([]byte, 8<<20)
	under := begin(large, 1, Standard)
	var taken Request
	if err := b.Recv(step(), &taken, nil, 1, exactly, make([]byte, len(large))); err != nil {
		t.Fatal(err)
	}
	for under.state != moving {
		step()
	}
	late, sync := begin(large, 2, Standard), begin(large[:8], 2, Synchronous)
	b.HandleActive(1, func(btl.Time, *Message) {}) // The message stays announced.
	call := new(Request)
	if err := a.SendActive(step(), call, to, 1, []byte("header"), large, Standard); err != nil {
		t.Fatal(err)
	}
	more := begin(large, 3, Standard)
	var last *Request
	for range 9 {
		last = begin(large[:8], 4, Announce)
	}
	if last.state != queued || under.state != moving || sync.state != announced {
		t.Fatalf("states %d, %d, %d show nothing", last.state, under.state, sync.state)
	}
	to.Endpoint().Abort()
	for i := 0; !last.Done() || !under.Done(); i++ {
		if step(); i > 10_000 {
			t.Fatal("not over")
		}
	}
	for name, c := range map[string]struct {
		r    *Request
		want error
	}{
		"moving": {under, ErrUnknown}, "announced": {late, ErrUndelivered},
		"eager": {sync, ErrUnknown}, "active": {call, ErrUndelivered},
		"more": {more, ErrUndelivered}, "queued": {last, ErrUndelivered},
	} {
		err := c.r.Err()
		if !errors.Is(err, ErrPeer) || !errors.Is(err, btl.ErrClosed) || !errors.Is(err, c.want) ||
			errors.Is(err, ErrUnknown) && errors.Is(err, ErrUndelivered) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each send goes the way that its mode asks for, and says so.
func TestWays(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 2, Config{EagerBytes: 1000, UnexpectedBytes: 2000})
	a, b := layers[0], layers[1]
	to := connected(t, step, a, b)
	for _, c := range []struct {
		mode      Mode
		size      int
		announced bool
		err       error
	}{
		{Standard, 10, false, nil},
		{Standard, 1000, false, nil},
		{Standard, 1001, true, nil},
		{Synchronous, 1000, false, nil},
		{Eager, 0, false, nil},
		{Eager, 10, false, nil},
		{Eager, 1000, false, nil},
		{Eager, 1001, false, ErrEager},
		{Announce, 0, true, nil},
		{Announce, 10, true, nil},
		{Announce, 3000, true, nil},
	} {
		for _, layout := range []bool{false, true} {
			var s, r Request
			data, room := make([]byte, c.size), make([]byte, 3000)
			if layout && c.size > 0 {
				s.Layout, data = comb{data, 1, c.size, c.size}, nil
			}
			if err := a.Send(step(), &s, to, 1, data, c.mode); !errors.Is(err, c.err) {
				t.Fatalf("%+v: %v", c, err)
			}
			if c.err != nil {
				continue
			}
			if err := b.Recv(step(), &r, nil, 1, exactly, room); err != nil {
				t.Fatal(err)
			}
			finish(t, step, &s, &r)
			if s.Announced() != c.announced || r.Announced() != c.announced || r.Len() != c.size {
				t.Errorf("%+v: sent %v, received %v", c, s.Announced(), r.Announced())
			}
		}
	}
}

// A message of the mode Eager waits for room at its peer, and those behind it wait, too; all come
// in their order.
func TestEagerWaits(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 2, Config{UnexpectedBytes: 2000})
	a, b := layers[0], layers[1]
	to := connected(t, step, a, b)
	const many = 20
	var sends [many]Request
	for i := range sends {
		if err := a.Send(step(), &sends[i], to, uint64(i), make([]byte, 1400), Eager); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		step()
	}
	if sends[1].Done() || a.Stats().SentEager != 1 || a.Stats().SentAnnounced != 0 {
		t.Fatalf("%+v", a.Stats())
	}
	room := make([]byte, 1400)
	for i := range sends {
		var r Request
		if err := b.Recv(step(), &r, nil, 0, 0, room); err != nil {
			t.Fatal(err)
		}
		finish(t, step, &sends[i], &r)
		if r.Tag() != uint64(i) || r.Announced() || sends[i].Announced() {
			t.Fatalf("message %d: tag %d, announced %v", i, r.Tag(), r.Announced())
		}
	}
}

// The modes hold for active messages, too.
func TestActiveWays(t *testing.T) {
	t.Parallel()
	step, until, a, b, to := activePair(t)
	came, announced := 0, false
	b.HandleActive(1, func(now btl.Time, m *Message) {
		came++
		if announced = m.Announced(); announced {
			if err := b.Drop(now, m); err != nil {
				t.Error(err)
			}
		}
	})
	for _, c := range []struct {
		mode Mode
		size int
		late bool
		err  error
	}{
		{Standard, 10, false, nil},
		{Standard, 100_000, true, nil},
		{Eager, 60_000, false, nil},
		{Eager, 70_000, false, ErrEager},
		{Announce, 10, true, nil},
		{Synchronous, 10, true, nil},
	} {
		var s Request
		before := came
		err := a.SendActive(step(), &s, to, 1, []byte("header"), make([]byte, c.size), c.mode)
		if !errors.Is(err, c.err) {
			t.Fatalf("%+v: %v", c, err)
		}
		if c.err != nil {
			continue
		}
		until("it has come", func() bool { return came > before && s.Done() })
		if announced != c.late || s.Announced() != c.late {
			t.Errorf("%+v: %v there, %v here", c, announced, s.Announced())
		}
	}
}

// remote is a layout of memory that this process cannot access, but by functions that copy: here
// those of a file. An accelerator's memory is such memory.
type remote struct {
	t     *testing.T
	f     *os.File
	bytes int
}

func (r remote) Bytes() int { return r.bytes }

func (r remote) Run(int) []byte { return nil }

func (r remote) Gather(to []byte, at int) {
	if _, err := r.f.ReadAt(to, int64(at)); err != nil {
		r.t.Error(err)
	}
}

func (r remote) Scatter(from []byte, at int) {
	if _, err := r.f.WriteAt(from, int64(at)); err != nil {
		r.t.Error(err)
	}
}

// Messages of all sizes go from and to memory that only a program's own functions can copy.
func TestMemoryOfADevice(t *testing.T) {
	t.Parallel()
	step, a, b, to := memPair(t)
	device := func(name string, content []byte) remote {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return remote{t: t, f: f, bytes: len(content)}
	}
	for _, size := range []int{1, 1000, 60_000, 1 << 20} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * i >> 4)
		}
		out, in := device("out", want), device("in", make([]byte, size))
		for _, ends := range [][2]bool{{true, true}, {true, false}, {false, true}} {
			var s, r Request
			data, room := want, make([]byte, size)
			if ends[0] {
				s.Layout, data = out, nil
			}
			got := room
			if ends[1] {
				in.Scatter(make([]byte, size), 0)
				r.Layout, room = in, nil
			}
			if err := b.Recv(step(), &r, nil, 1, exactly, room); err != nil {
				t.Fatal(err)
			}
			if err := a.Send(step(), &s, to, 1, data, Standard); err != nil {
				t.Fatal(err)
			}
			finish(t, step, &s, &r)
			if ends[1] {
				in.Gather(got, 0)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v: not what was sent", size, ends)
			}
		}
	}
}
