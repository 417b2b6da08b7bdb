package matching

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/pml"
)

// The kinds of messages of package pml, as its documentation has them.
const (
	kindEager    = 1
	kindAnnounce = 2
	kindClear    = 3
	kindFin      = 4
	kindMatched  = 5
	kindCredit   = 6
	kindActive   = 7
	kindCall     = 8 // an active message that is announced
)

// head is the beginning of a message on the wire.
type head struct {
	kind, flags byte
	number      uint32
	a, b, c, d  uint64
}

// of writes a head as the documentation has it.
func of(h head) []byte {
	size := map[byte]int{kindAnnounce: 32, kindClear: 40, kindCall: 32}[h.kind]
	b := make([]byte, max(size, 16))
	b[0], b[1] = h.kind, h.flags
	binary.LittleEndian.PutUint32(b[4:], h.number)
	for i, v := range []uint64{h.a, h.b, h.c, h.d} {
		if 8+8*i < len(b) {
			binary.LittleEndian.PutUint64(b[8+8*i:], v)
		}
	}
	return b
}

// pairOf is two ranks over a good network, without a model.
func pairOf(t *testing.T, cfg pml.Config) (w *world, a, b *rank) {
	t.Helper()
	w = newWorld(t, 1, 2, &cfg)
	for _, r := range w.ranks {
		r.l.Observe(nil)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, w.ranks[0], w.ranks[1]
}

// A rank that does not receive keeps no more than it has to; the sender waits, and all arrives in
// order when it does.
func TestFlood(t *testing.T) {
	t.Parallel()
	cfg := pml.Config{EagerBytes: 100, UnexpectedBytes: 1000, EnvelopesMax: 16}
	w, a, b := pairOf(t, cfg)
	const messages = 20_000
	sends := make([]pml.Request, messages)
	data := make([][8]byte, messages)
	for i := range sends {
		binary.LittleEndian.PutUint64(data[i][:], uint64(i))
		err := a.l.Send(w.Now(), &sends[i], a.peers[1], uint64(i%3), data[i][:], pml.Standard)
		if err != nil {
			t.Fatal(err)
		}
	}
	a.Kick()
	bounded := func() {
		kept, n := b.l.Stats().UnexpectedBytes, b.l.Stats().UnexpectedMessages
		if kept > cfg.UnexpectedBytes || n > cfg.EnvelopesMax {
			t.Fatalf("%d messages, %d bytes are kept", n, kept)
		}
	}
	for range 200 {
		w.Advance(time.Millisecond)
		bounded()
	}
	if n := b.l.Stats().UnexpectedMessages; n != cfg.EnvelopesMax {
		t.Errorf("%d messages have come, want %d", n, cfg.EnvelopesMax)
	}
	if sends[messages-1].Done() || sends[cfg.EnvelopesMax].Done() {
		t.Error("the sender does not wait")
	}
	got := 0
	var r pml.Request
	var room [8]byte
	r.OnDone = func(r *pml.Request) {
		if r.Err() != nil || r.Len() != 8 || binary.LittleEndian.Uint64(room[:]) != uint64(got) {
			t.Fatalf("message %d: %x, %v", got, room, r.Err())
		}
		if got++; got < messages {
			if err := b.l.Recv(w.Now(), r, nil, 0, 0, room[:]); err != nil {
				t.Error(err)
			}
		}
	}
	if err := b.l.Recv(w.Now(), &r, nil, 0, 0, room[:]); err != nil {
		t.Fatal(err)
	}
	b.Kick()
	err := w.Until(w.Now().Add(20*time.Second), func() bool {
		bounded()
		return got == messages && sends[messages-1].Done()
	})
	if err != nil {
		t.Fatalf("%d of %d messages: %v", got, messages, err)
	}
	if b.l.Stats().UnexpectedBytes != 0 {
		t.Errorf("%+v", b.l.Stats())
	}
}

// A synchronous send waits for its receive, small or large; the others do not.
func TestModes(t *testing.T) {
	t.Parallel()
	w, a, b := pairOf(t, pml.Config{})
	before := uint64(0)
	for _, size := range []int{0, 100, 20_000} {
		for mode := pml.Standard; mode <= pml.Ready; mode++ {
			var s, r pml.Request
			data, room := content(0, 1, size, size), make([]byte, size)
			if err := a.l.Send(w.Now(), &s, a.peers[1], 5, data, mode); err != nil {
				t.Fatal(err)
			}
			if err := a.l.Send(w.Now(), &s, a.peers[1], 5, data, mode); !s.Done() &&
				!errors.Is(err, pml.ErrBusy) {
				t.Error("a request twice:", err)
			}
			a.Kick()
			w.Advance(10 * time.Millisecond)
			if waits := mode == pml.Synchronous || size > 10_000; s.Done() == waits {
				t.Errorf("mode %d, %d bytes: done %v", mode, size, s.Done())
			}
			notReady := b.l.Stats().NotReady
			if (mode == pml.Ready) != (notReady > before) {
				t.Errorf("mode %d: %+v", mode, b.l.Stats())
			}
			before = notReady
			for range 2 { // The request that was used twice has sent twice where it was done at once.
				if err := b.l.Recv(w.Now(), &r, b.peers[0], 5, exactly, room); err != nil {
					t.Fatal(err)
				}
				b.Kick()
				w.Advance(10 * time.Millisecond)
				if !r.Done() {
					b.l.Cancel(&r)
					break
				}
				if r.Err() != nil || !bytes.Equal(room, data) {
					t.Fatalf("mode %d, %d bytes: %v", mode, size, r.Err())
				}
			}
			if !s.Done() || s.Err() != nil {
				t.Errorf("mode %d, %d bytes: %v", mode, size, s.Err())
			}
		}
	}
}

// Who does not keep to the protocol is given up, whatever it has sent; nobody else notices.
func TestStrangeBytes(t *testing.T) {
	t.Parallel()
	cfg := pml.Config{EagerBytes: 100, UnexpectedBytes: 500, EnvelopesMax: 8}
	eager := func(number uint32, size int) []byte {
		return append(of(head{kind: kindEager, number: number}), make([]byte, size)...)
	}
	call := func(number uint32, header int) []byte {
		h := of(head{kind: kindCall, number: number, a: uint64(header), b: 1, c: 1})
		return append(h, make([]byte, header)...)
	}
	for name, messages := range map[string][][]byte{
		"nothing":               {{}},
		"short":                 {eager(0, 0)[:15]},
		"no kind":               {of(head{kind: 0})},
		"another kind":          {of(head{kind: 9})},
		"other flags":           {of(head{kind: kindEager, flags: 4})},
		"flags of an answer":    {of(head{kind: kindFin, flags: 1})},
		"reserved":              {append([]byte{1, 0, 1}, eager(0, 0)[3:]...)},
		"a number far ahead":    {eager(8, 0)},
		"a number of before":    {eager(0, 0), eager(0, 0)},
		"an early number twice": {eager(3, 0), eager(3, 0)},
		"too large for eager":   {eager(0, 101)},
		"too much at a time":    {eager(1, 90), eager(2, 90), eager(3, 90), eager(4, 90)},
		"too many at a time": {
			eager(0, 0), of(head{kind: kindAnnounce, number: 1, c: 1}),
			of(head{kind: kindAnnounce, number: 2, c: 1}), of(head{kind: kindAnnounce, number: 3, c: 1}),
			of(head{kind: kindAnnounce, number: 4, c: 1}), of(head{kind: kindAnnounce, number: 5, c: 1}),
			of(head{kind: kindAnnounce, number: 6, c: 1}), of(head{kind: kindAnnounce, number: 7, c: 1}),
			of(head{kind: kindAnnounce, number: 8, c: 1}),
		},
		"more behind a head":     {append(of(head{kind: kindAnnounce}), 0)},
		"clear of nothing":       {of(head{kind: kindClear, a: 1})},
		"clear for more":         {of(head{kind: kindClear, a: 1 << 24, d: 1001})},
		"fin of a send":          {of(head{kind: kindFin, a: 1 << 24})},
		"fin of nothing":         {of(head{kind: kindFin})},
		"matched of nothing":     {of(head{kind: kindMatched, a: 99})},
		"matched of another's":   {of(head{kind: kindMatched, a: 2<<24 | 1})},
		"credit for the unsent":  {of(head{kind: kindCredit, number: 9})},
		"credit for more bytes":  {of(head{kind: kindCredit, a: 1 << 40})},
		"clear of no such state": {of(head{kind: kindClear, number: 1, a: 1 << 24})},
		"flags of a call":        {of(head{kind: kindActive, flags: 1})},
		"header beyond the end":  {of(head{kind: kindActive, a: 1})},
		"header without end":     {of(head{kind: kindActive, a: 1 << 63})},
		"header of no length":    {append(of(head{kind: kindCall, c: 1}), 0)},
		"header cut short":       {of(head{kind: kindCall, a: 1, c: 1})},
		"header too long":        {append(of(head{kind: kindCall, a: 251}), make([]byte, 251)...)},
		"a call too large":       {append(of(head{kind: kindActive}), make([]byte, 101)...)},
		"a call of before":       {of(head{kind: kindActive}), of(head{kind: kindActive})},
		"headers too much at a time": {
			call(1, 200), call(2, 200), call(3, 200),
		},
		"calls too many at a time": {
			call(0, 0), call(1, 0), call(2, 0), call(3, 0), call(4, 0), call(5, 0), call(6, 0), call(7, 0),
			call(8, 0),
		},
	} {
		w, a, b := pairOf(t, cfg)
		var s, r, own, other pml.Request
		if err := a.l.Send(w.Now(), &s, a.peers[1], 0, make([]byte, 1000), pml.Standard); err != nil {
			t.Fatal(err)
		}
		a.l.HandleActive(0, func(btl.Time, *pml.Message) {}) // What is announced stays.
		err := a.l.Send(w.Now(), &own, a.peers[0], 0, nil, pml.Synchronous)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.l.Recv(w.Now(), &r, a.peers[1], 77, exactly, nil); err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			f, err := b.peers[0].Endpoint().Alloc(0, len(m))
			if err != nil {
				t.Fatal(err)
			}
			copy(f.Bytes(), m)
			if _, err := b.peers[0].Endpoint().Send(w.Now(), f); err != nil {
				t.Fatal(err)
			}
			b.Kick()
			w.Advance(time.Millisecond)
		}
		w.Advance(10 * time.Millisecond)
		if a.peers[1].Endpoint().Err() == nil {
			t.Errorf("%s: the endpoint lives", name)
		}
		for _, q := range []*pml.Request{&s, &r} {
			if !q.Done() || !errors.Is(q.Err(), pml.ErrProtocol) || !errors.Is(q.Err(), pml.ErrPeer) {
				t.Errorf("%s: %v", name, q.Err())
			}
		}
		if own.Done() {
			t.Errorf("%s: it ends a send to another one: %v", name, own.Err())
		}
		err = a.l.Send(w.Now(), &s, a.peers[1], 0, nil, pml.Standard)
		if !errors.Is(err, pml.ErrProtocol) {
			t.Errorf("%s: the next send: %v", name, err)
		}
		if err := a.l.Send(w.Now(), &other, a.peers[0], 0, nil, pml.Standard); err != nil {
			t.Errorf("%s: a send to another one: %v", name, err)
		}
	}
}

// TestOrderOfManyTags fills the tables, so that they grow.
func TestOrderOfManyTags(t *testing.T) {
	t.Parallel()
	w, a, b := pairOf(t, pml.Config{})
	const tags, each = 500, 4
	sends, recvs := make([]pml.Request, tags*each), make([]pml.Request, tags*each)
	rooms := make([][1]byte, tags*each)
	post := func(i int) {
		tag := uint64(i % tags)
		if err := b.l.Recv(w.Now(), &recvs[i], b.peers[0], tag, exactly, rooms[i][:]); err != nil {
			t.Fatal(err)
		}
		b.Kick()
	}
	for i := range tags * each / 2 { // half of them before, half after the messages
		post(i)
	}
	for i := range sends {
		data := []byte{byte(i / tags)}
		err := a.l.Send(w.Now(), &sends[i], a.peers[1], uint64(i%tags), data, pml.Standard)
		if err != nil {
			t.Fatal(err)
		}
	}
	a.Kick()
	w.Advance(100 * time.Millisecond)
	for i := tags * each / 2; i < tags*each; i++ {
		post(i)
	}
	for i := range recvs {
		r, s := &recvs[i], &sends[i]
		if r.Err() != nil || !r.Done() || int(rooms[i][0]) != i/tags || !s.Done() || s.Err() != nil {
			t.Errorf("receive %d: %v, %d; send: %v", i, r.Err(), rooms[i][0], s.Err())
		}
	}
}
