package pml

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// A head is read as it was written, and what is read is written as it was.
func TestHeads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 48).Draw(t, "bytes")
		if len(b) > 3 && rapid.Bool().Draw(t, "like one") {
			b[0], b[1], b[2], b[3] = b[0]%10, b[1]%4, b[2]%2, 0
			if len(b) > 15 && rapid.Bool().Draw(t, "a number of bytes") {
				clear(b[9:16])
			}
		}
		var h head
		rest, ok := h.read(b)
		if !ok {
			return
		}
		var again [headMostSize]byte
		h.put(again[:h.bytes()])
		if !bytes.Equal(again[:h.bytes()], b[:len(b)-len(rest)]) {
			t.Fatalf("%x is %+v, written as %x", b, h, again)
		}
	})
	for k := kindEager; k < kindData; k++ { // data has bytes behind its head
		want := head{kind: k, number: 7, a: 1, b: 2, c: 3, d: 4}
		if want.active() {
			want.id, want.a = 0xfffe, 0
		}
		var b [headMostSize]byte
		want.put(b[:])
		var got head
		if rest, ok := got.read(b[:want.bytes()]); !ok || len(rest) != 0 || got.kind != k ||
			got.a != want.a || got.id != want.id {
			t.Errorf("%+v is read as %+v, %v", want, got, ok)
		}
	}
}

// A message is not announced with more bytes than there are numbers for.
func TestHeadOfTooMuch(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{kindAnnounce, kindActiveAnnounce} {
		h := head{kind: k, c: 1<<63 + 8}
		var b [headMostSize]byte
		h.put(b[:])
		if _, ok := h.read(b[:h.bytes()]); ok {
			t.Errorf("kind %d: %d bytes are taken for a size", k, h.c)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if err := (Config{}).withDefaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Config{
		{Tag: btl.TagMax + 1},
		{EagerBytes: 1<<20 + 1},
		{UnexpectedBytes: 63},
		{UnexpectedBytes: 1<<30 + 1},
		{GoneBytes: -1},
		{GoneBytes: 1<<40 + 1},
		{EnvelopesMax: 2},
		{EnvelopesMax: 100},
		{EnvelopesMax: 1 << 21},
	} {
		if err := bad.withDefaults().Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A table has each value in the list of its hash, in the order in which it came, however it grows.
func TestTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := newUnexpected(rapid.Uint64().Draw(t, "seed"), 0)
		peers := []*Peer{newPeer(1), newPeer(2)}
		masks := []uint64{0, 1, exactly, 6, ^uint64(3), 5}
		masks = masks[:rapid.IntRange(1, anyMasks+2).Draw(t, "masks")]
		var model []*Message
		most := rapid.SampledFrom([]int{10, 1000}).Draw(t, "most")
		tag := rapid.Uint64Range(0, uint64(most))
		for range rapid.IntRange(0, 2*most).Draw(t, "steps") {
			from := peers[rapid.IntRange(0, 1).Draw(t, "peer")]
			if rapid.IntRange(0, 4).Draw(t, "step") > 0 {
				m := &Message{peer: from, tag: tag.Draw(t, "tag")}
				q.add(m)
				model = append(model, m)
				continue
			}
			want, mask := tag.Draw(t, "tag"), rapid.SampledFrom(masks).Draw(t, "mask")
			if rapid.Bool().Draw(t, "any") {
				from = nil
			}
			at := slices.IndexFunc(model, func(m *Message) bool {
				return (from == nil || m.peer == from) && (m.tag^want)&mask == 0
			})
			got := q.find(from, want, mask)
			if at < 0 && got != nil || at >= 0 && got != model[at] {
				t.Fatalf("found %+v, want number %d", got, at)
			}
			if got != nil {
				q.remove(got)
				model = slices.Delete(model, at, at+1)
			}
		}
		if q.exact.count != len(model) || len(model) > 4*bucketsMin &&
			len(q.exact.buckets) == bucketsMin {
			t.Fatalf("%d of %d values in %d buckets", q.exact.count, len(model), len(q.exact.buckets))
		}
	})
}

// Of the receives that want a message the one that was posted first has it, however many there are.
func TestPosted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := newPosted(rapid.Uint64().Draw(t, "seed"))
		peers := []*Peer{newPeer(1), newPeer(2)}
		var model []*Request
		most := rapid.SampledFrom([]int{3, 1000}).Draw(t, "most")
		tag := rapid.Uint64Range(0, uint64(most))
		for range rapid.IntRange(0, 2*most).Draw(t, "steps") {
			from := peers[rapid.IntRange(0, 1).Draw(t, "peer")]
			if rapid.IntRange(0, 4).Draw(t, "step") > 0 {
				if rapid.IntRange(0, 9).Draw(t, "any") == 0 {
					from = nil
				}
				r := &Request{}
				mask := rapid.SampledFrom([]uint64{exactly, exactly, exactly, 1}).Draw(t, "mask")
				r.begin(from, tag.Draw(t, "tag"), mask, nil)
				q.add(r)
				model = append(model, r)
				continue
			}
			has := tag.Draw(t, "tag")
			at := slices.IndexFunc(model, func(r *Request) bool {
				return (r.from == nil || r.from == from) && (r.tag^has)&r.mask == 0
			})
			got := q.take(from, has)
			if at < 0 && got != nil || at >= 0 && got != model[at] {
				t.Fatalf("took %+v, want number %d", got, at)
			}
			if at >= 0 {
				model = slices.Delete(model, at, at+1)
			}
		}
		left := 0
		q.each(func(*Request) { left++ })
		if left != len(model) {
			t.Fatalf("%d are left, want %d", left, len(model))
		}
	})
}

// memLayers is so many layers over a network inside the process, which allocates nothing.
func memLayers(t *testing.T, count int, lc Config) (step func() btl.Time, layers []*Layer) {
	t.Helper()
	net := mem.New(mem.Config{})
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	return openLayers(t, count, lc, infos[0], net.Open)
}

// openLayers opens layers over any network.
func openLayers(t *testing.T, count int, lc Config, info fabric.Info,
	open func(fabric.DomainConfig) (fabric.Domain, error),
) (step func() btl.Time, layers []*Layer) {
	t.Helper()
	return openModules(t, count, lc, btl.Config{SendBuffers: 256}, info, open)
}

// openModules opens layers whose modules have the configuration cfg.
func openModules(t *testing.T, count int, lc Config, cfg btl.Config, info fabric.Info,
	open func(fabric.DomainConfig) (fabric.Domain, error),
) (step func() btl.Time, layers []*Layer) {
	t.Helper()
	layers = make([]*Layer, count)
	now := btl.Time(1)
	for i := range layers {
		sizes, err := cfg.DomainConfig(info)
		if err != nil {
			t.Fatal(err)
		}
		domain, err := open(sizes)
		if err != nil {
			t.Fatal(err)
		}
		m, err := btl.Open(domain, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if layers[i], err = New(m, lc, nil); err != nil {
			t.Fatal(err)
		}
	}
	step = func() btl.Time {
		now = now.Add(10 * time.Microsecond)
		for _, l := range layers {
			if _, err := l.Progress(now); err != nil {
				t.Fatal(err)
			}
		}
		return now
	}
	return step, layers
}

// connected connects two of them.
func connected(t *testing.T, step func() btl.Time, a, b *Layer) *Peer {
	t.Helper()
	ep, err := a.m.Connect(step(), b.m.Name())
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		step()
	}
	if !ep.Connected() {
		t.Fatal("not connected")
	}
	return a.Peer(ep)
}

// memPair is two layers that are connected.
func memPair(t *testing.T) (step func() btl.Time, a, b *Layer, to *Peer) {
	t.Helper()
	step, layers := memLayers(t, 2, Config{})
	return step, layers[0], layers[1], connected(t, step, layers[0], layers[1])
}

// Eager messages allocate nothing, posted or unexpected, whatever receives want.
func TestEagerAllocatesNothing(t *testing.T) {
	step, a, b, to := memPair(t)
	var s, r Request
	data, room := make([]byte, 64), make([]byte, 64)
	for name, order := range map[string]bool{"posted": true, "unexpected": false} {
		for _, mask := range []uint64{exactly, 0} {
			once := func() {
				now := step()
				recv := func() {
					if err := b.Recv(now, &r, nil, 1, mask, room); err != nil {
						t.Fatal(err)
					}
				}
				if order {
					recv()
				}
				if err := a.Send(now, &s, to, 1, data, Standard); err != nil {
					t.Fatal(err)
				}
				for range 4 {
					now = step()
				}
				if !order {
					recv()
				}
				if !r.Done() || r.Err() != nil || !s.Done() {
					t.Fatalf("%s: %v", name, r.Err())
				}
			}
			for range 20_000 { // until all that grows has grown
				once()
			}
			if n := testing.AllocsPerRun(500, once); n != 0 {
				t.Errorf("%s, mask %x: %v allocations", name, mask, n)
			}
		}
	}
}

// Values of other peers and tags that have the same place in a table are told apart.
func TestCollisions(t *testing.T) {
	t.Parallel()
	a, b := newPeer(1), newPeer(2)
	place := func(p *Peer, tag uint64) uint64 { return hash(0, p.index, tag) >> 32 % bucketsMin }
	sameTag, other := uint64(0), uint64(1)
	for place(a, sameTag) != place(b, sameTag) {
		sameTag++
	}
	for other == sameTag || place(a, other) != place(a, sameTag) {
		other++
	}
	var q unexpected
	var p posted
	add := func(from *Peer, tag uint64) {
		q.add(&Message{peer: from, tag: tag})
		r := &Request{}
		r.begin(from, tag, exactly, nil)
		p.add(r)
	}
	for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		q, p = newUnexpected(0, 0), newPosted(0)
		wants := []*Message{{peer: a, tag: sameTag}, {peer: b, tag: sameTag}, {peer: a, tag: other}}
		for _, i := range order {
			add(wants[i].peer, wants[i].tag)
		}
		for i, want := range wants {
			m, r := q.find(want.peer, want.tag, exactly), p.take(want.peer, want.tag)
			if m == nil || m.peer != want.peer || m.tag != want.tag ||
				r == nil || r.from != want.peer || r.tag != want.tag {
				t.Errorf("order %v: %d: %+v, %+v", order, i, m, r)
			}
		}
	}
}

// A receive from one peer does not look at the messages that other peers have sent before. Neither
// does a receive from any peer, whatever mask it has, look at those that it does not match.
func TestUnexpectedOfOthers(t *testing.T) {
	const context, tags = 7 << 32, 1<<32 - 1
	find := func(others int, wild bool, tag, mask uint64) (took time.Duration) {
		a, b, q := newPeer(1), newPeer(2), newUnexpected(0, 0)
		from := a
		if wild {
			from = nil
		}
		for i := range others {
			q.add(&Message{peer: b, tag: uint64(i)})
		}
		want := &Message{peer: a, tag: context + 5}
		q.add(want)
		took = time.Hour
		for range 20 { // the fastest, for the machine may do something else
			begin := time.Now()
			for range 100 {
				if q.find(from, tag, mask) != want {
					t.Fatal("not found")
				}
			}
			took = min(took, time.Since(begin)/100)
		}
		return took
	}
	for name, c := range map[string]struct {
		wild      bool
		tag, mask uint64
	}{
		"one peer": {false, 0, 0}, "any peer, one tag": {true, context + 5, exactly},
		"any peer, any tag": {true, context, ^uint64(tags)},
	} {
		few, many := find(10, c.wild, c.tag, c.mask), find(100_000, c.wild, c.tag, c.mask)
		t.Logf("%s: behind 10 messages of another peer %v, behind 100000 %v", name, few, many)
		if many > 200*max(few, time.Nanosecond) {
			t.Errorf("%s: behind 10 messages of another peer it takes %v, behind 100000 %v", name, few,
				many)
		}
	}
}

// An abandoned send ends at once, whether it is announced, synchronous or unsent. A later receive
// gets an error or the copy that was sent, and no resources are left.
func TestAbandon(t *testing.T) {
	step, a, b, to := memPair(t)
	why := errors.New("no more of that")
	large, small := make([]byte, 200_000), []byte("small")
	for _, c := range []struct {
		data []byte
		mode Mode
		want error
	}{{large, Standard, ErrTransfer}, {small, Synchronous, nil}, {large, Synchronous, ErrTransfer}} {
		var send, recv Request
		if err := a.Send(step(), &send, to, 7, c.data, c.mode); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			step()
		}
		if send.Done() || !a.Abandon(&send, why) || !send.Done() || !errors.Is(send.Err(), why) {
			t.Fatalf("%d bytes: done %v, %v", len(c.data), send.Done(), send.Err())
		}
		if a.Abandon(&send, why) {
			t.Error("abandoned twice")
		}
		if err := b.Recv(step(), &recv, nil, 7, exactly, make([]byte, len(c.data))); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			step()
		}
		if !recv.Done() || !errors.Is(recv.Err(), c.want) {
			t.Errorf("%d bytes: received %v, %v", len(c.data), recv.Done(), recv.Err())
		}
		if err := errors.Join(a.CheckIdle(), b.CheckIdle()); err != nil {
			t.Error(err)
		}
	}
	var sends [5000]Request // more than the peer takes unreceived
	for i := range sends {
		if err := a.Send(step(), &sends[i], to, 8, small, Standard); err != nil {
			t.Fatal(err)
		}
	}
	if last := &sends[len(sends)-1]; last.Done() || !a.Abandon(last, why) || !last.Done() {
		t.Error("one that waits for room is not abandoned")
	}
	if to.Err() != nil {
		t.Error(to.Err())
	}
}
