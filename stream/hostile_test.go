//go:build unix

package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// One bad peer harms nobody else: docs/explanation/peers.md has the rules. A rogue is a module of
// the transport that says what it likes.

type rogue struct {
	t    *testing.T
	w    *simWorld
	node *sim.Node
	m    *btl.Module
	ep   *btl.Endpoint // to whom it has connected
	// heard are the letters that have come; answer is called with each.
	heard  []map[string]any
	answer func(ep *btl.Endpoint, l map[string]any)
	pass   func() // in each pass
	key    uint64
}

func (w *simWorld) rogue(t *testing.T, name string) *rogue {
	t.Helper()
	r := &rogue{t: t, w: w, node: w.nw.Node(name), key: 5000 + uint64(len(name))}
	dom, err := r.node.Open(fabric.DomainConfig{Buffers: 2048})
	if err != nil {
		t.Fatal(err)
	}
	r.m, err = btl.Open(dom, btl.Config{
		SendBuffers: 512, RecvDepth: 256, PeerTimeout: 10 * time.Second,
		Random: rand.New(rand.NewPCG(uint64(r.node.Index()), 9)).Uint64,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(r.m.Handle(tagLetter, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		var l map[string]any
		if err := json.Unmarshal(data, &l); err != nil {
			t.Error(err)
		}
		r.heard = append(r.heard, l)
		if r.answer != nil {
			r.answer(ep, l)
		}
	}), r.m.Handle(tagNotice, func(*btl.Endpoint, btl.Tag, []byte) {}))
	if err != nil {
		t.Fatal(err)
	}
	r.node.Run(r)
	return r
}

// Progress implements sim.Process.
func (r *rogue) Progress(now mono.Time) (int, error) {
	n, err := r.m.Progress(now)
	if r.pass != nil {
		r.pass()
	}
	return n, err
}

// Deadline implements sim.Process.
func (r *rogue) Deadline() mono.Time {
	if r.pass != nil {
		return r.w.nw.Now().Add(time.Millisecond)
	}
	return r.m.Deadline()
}

// connect connects to a module.
func (r *rogue) connect(name []byte) {
	r.t.Helper()
	var err error
	if r.ep, err = r.m.Connect(r.w.nw.Now(), name); err != nil {
		r.t.Fatal(err)
	}
	r.node.Kick()
	r.w.until(time.Minute, r.ep.Connected)
}

// say sends a letter, and returns false if there was no room.
func (r *rogue) say(ep *btl.Endpoint, l map[string]any) bool {
	b, err := json.Marshal(l)
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := ep.Alloc(tagLetter, len(b))
	if err != nil {
		return false
	}
	copy(f.Bytes(), b)
	if _, err := ep.Send(r.w.nw.Now(), f); err != nil {
		_ = ep.Free(f)
		return false
	}
	r.node.Kick()
	return true
}

type obj = map[string]any

// hello is one that fits the streams of these tests.
func (r *rogue) hello(to uint64, change obj) obj {
	h := obj{
		"version": protocolVersion, "to": text(to), "mode": "reliable", "message_bytes": 64,
		"messages": "100", "first": "0", "ring_messages": "32",
	}
	for k, v := range change {
		h[k] = v
	}
	return obj{"kind": letterHello, "key": text(r.key), "hello": h}
}

func text(n uint64) string { b, _ := json.Marshal(n); return string(b) }

// got says whether a letter of a kind has come, and returns the latest.
func (r *rogue) got(kind string) (l obj, ok bool) {
	for _, l = range r.heard {
		if l["kind"] == kind {
			ok = true
		}
	}
	return l, ok
}

var roguesGeometry = Geometry{64, 4, 8}

// receiver opens a receiver that waits at a host.
func (w *simWorld) receiver(h *simHost, cfg Config, key uint64) *simStream {
	w.t.Helper()
	ring, _ := NewRing(roguesGeometry, nil)
	rx, err := h.newReceiver(ring, cfg, key)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &simStream{w: w, rx: rx}
	h.after = s.read
	return s
}

// send has a sender at a host send a stream to receivers.
func (s *simStream) send(h *simHost, cfg Config, key uint64, to ...Identity) {
	w := s.w
	w.t.Helper()
	ring, _ := NewRing(roguesGeometry, nil)
	for i := range roguesGeometry.Messages() {
		fillMessage(ring.Bytes()[i*64:][:64], uint64(i))
	}
	cfg.Unmonitored = true
	tx, err := h.newSender(ring, cfg, key)
	if err != nil {
		w.t.Fatal(err)
	}
	s.tx = tx
	for _, id := range to {
		if err := tx.addReceiver(id); err != nil {
			w.t.Fatal(err)
		}
	}
	h.ctl.Kick()
}

// whole waits for a stream's end, and checks that all of it is right.
func (s *simStream) whole(within time.Duration, messages uint64) {
	s.w.t.Helper()
	s.w.until(within, s.ended)
	s.verdict(messages, 0, 0)
}

// TestRightEndsWithItsPeer: what a sender that has gone was allowed to write into, it is not
// allowed to write into while the next sender uses it.
func TestRightEndsWithItsPeer(t *testing.T) {
	w := newSimWorld(t, 31, 1)
	cfg := Config{Messages: 4000, BitsPerSecond: 64 * 8 * 5000}
	s := w.receiver(w.rx[0], cfg, 77)
	bad := w.rogue(t, "bad")
	bad.connect(s.rx.Identity().Name)
	bad.say(bad.ep, bad.hello(77, obj{"messages": "4000"}))
	w.until(time.Minute, func() bool { _, ok := bad.got(letterWelcome); return ok })
	l, _ := bad.got(letterWelcome)
	handle := uint64(0)
	if ring, ok := l["welcome"].(obj)["ring"].(string); ok {
		if err := json.Unmarshal([]byte(ring), &handle); err != nil {
			t.Fatal(err)
		}
	}
	bad.ep.Abort()
	bad.node.Kick()
	w.until(time.Minute, func() bool { return !s.rx.Met() })
	bad.connect(s.rx.Identity().Name)
	junk := make([]byte, 64)
	bad.pass = func() {
		if handle == 0 {
			return
		}
		for range 8 {
			f, err := bad.ep.PreparePut(junk, btl.Handle(handle), uint64(w.nw.Now())%32*64)
			if err != nil {
				return
			}
			if _, err := bad.ep.Send(w.nw.Now(), f); err != nil {
				_ = bad.ep.Free(f)
				return
			}
		}
	}
	bad.node.Kick()
	s.send(w.tx, cfg, 99, s.rx.Identity())
	s.whole(time.Minute, 4000)
}

// TestUnreadAnswers: a peer that asks and asks and takes no answer holds up nobody else.
func TestUnreadAnswers(t *testing.T) {
	w := newSimWorld(t, 32, 1)
	cfg := Config{Messages: 4000, BitsPerSecond: 64 * 8 * 5000}
	s := w.receiver(w.rx[0], cfg, 77)
	bad := w.rogue(t, "bad")
	bad.connect(s.rx.Identity().Name)
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		const answer = 120 // larger than an acknowledgement
		return sim.Verdict{Drop: d.To.Node == bad.node.Index() && len(d.Data) > answer}
	})
	asked := 0
	bad.pass = func() {
		for asked < 20_000 && bad.say(bad.ep, bad.hello(78, nil)) {
			asked++
		}
	}
	bad.node.Kick()
	w.nw.RunUntil(w.nw.Now().Add(500 * time.Millisecond))
	if asked < 1000 {
		t.Fatalf("asked %d times", asked)
	}
	s.send(w.tx, cfg, 99, s.rx.Identity())
	s.whole(2*time.Second, 4000) // it takes .8 s
	if n := len(w.rx[0].outboxes); n != 0 {
		t.Errorf("%d queues are left", n)
	}
}

// TestMisfitsAtReceiver: senders that do not fit, and letters out of order, are refused, and the
// receiver takes the one that fits.
func TestMisfitsAtReceiver(t *testing.T) {
	start := obj{"datagram_bytes": 9, "sent": "0"}
	for name, letters := range map[string][]obj{
		"message size":      {{"message_bytes": 65}},
		"version":           {{"version": 1}},
		"mode":              {{"mode": "unreliable"}},
		"total":             {{"messages": "101"}},
		"group":             {{"group": strings.Repeat("g", 200)}},
		"start without it":  {{"kind": letterStart, "start": start}},
		"start of nonsense": {{}, {"kind": letterStart, "start": start}},
		"tiny datagrams":    {{}, {"kind": letterStart, "start": obj{"datagram_bytes": 25, "sent": "0"}}},
		"abort":             {{}, {"kind": letterAbort, "reason": "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(t, 33, 1)
			cfg := Config{Messages: 100}
			if name == "start of nonsense" || name == "tiny datagrams" {
				cfg.Mode = Unreliable
			}
			s := w.receiver(w.rx[0], cfg, 77)
			bad := w.rogue(t, "bad")
			bad.connect(s.rx.Identity().Name)
			for _, l := range letters {
				if l["kind"] == nil {
					if l["mode"] == nil {
						l["mode"] = cfg.Mode.String()
					}
					l = bad.hello(77, l)
				}
				l["key"] = text(bad.key)
				bad.say(bad.ep, l)
				w.nw.RunUntil(w.nw.Now().Add(100 * time.Millisecond))
			}
			if _, told := bad.got(letterAbort); !told && name != "abort" {
				t.Error("the one that does not fit is not told")
			}
			s.send(w.tx, cfg, 99, s.rx.Identity())
			s.whole(time.Minute, 100)
		})
	}
}

// badReceiver is a rogue that answers a sender's hello with a welcome, or an abort.
func (w *simWorld) badReceiver(t *testing.T, name string, answer obj) (*rogue, Identity) {
	bad := w.rogue(t, name)
	bad.answer = func(ep *btl.Endpoint, l obj) {
		switch {
		case l["kind"] == letterHello && answer != nil:
			a := obj{"key": l["key"]}
			for k, v := range answer {
				a[k] = v
			}
			bad.say(ep, a)
		case l["kind"] == letterStart:
			rights, ok := answer["ready"].(obj)
			if !ok {
				rights = obj{"blocks": []uint64{1}}
			}
			bad.say(ep, obj{"kind": letterReady, "key": l["key"], "ready": rights})
		}
	}
	return bad, Identity{Role: RoleReceiver, Key: 5, Name: bad.m.Name()}
}

// TestMisfitsAtSender: receivers that do not fit, do not go on or are not there take nobody's
// place, and what they wish holds up no other.
func TestMisfitsAtSender(t *testing.T) {
	welcome := func(change obj) obj {
		w := obj{"grace_ns": "1000000", "ring_messages": "32", "datagram_bytes": 1400}
		for k, v := range change {
			w[k] = v
		}
		return obj{"kind": letterWelcome, "welcome": w}
	}
	for name, answer := range map[string]obj{
		"silent":          nil,
		"refuses":         {"kind": letterAbort, "reason": "your messages have the wrong size"},
		"ring of nothing": welcome(obj{"ring_messages": "0"}),
		"endless ring":    welcome(obj{"ring_messages": text(ringBytesMax / 64 * 2)}),
		"grace":           welcome(obj{"grace_ns": text(uint64(time.Hour))}),
		"gone":            {"kind": "gone"},
		"no blocks":       welcome(obj{}),
		"uneven blocks":   welcome(obj{}),
	} {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "no blocks":
				answer["ready"] = obj{}
			case "uneven blocks":
				answer["ready"] = obj{"blocks": []uint64{1, 2, 3}}
			}
			w := newSimWorld(t, 34, 1)
			cfg := Config{Messages: 100, Timeout: 5 * time.Second}
			bad, id := w.badReceiver(t, "bad", answer)
			if name == "gone" {
				bad.node.Crash()
			}
			s := w.receiver(w.rx[0], cfg, 77)
			s.send(w.tx, cfg, 99, id)
			w.nw.RunUntil(w.nw.Now().Add(200 * time.Millisecond))
			if s.tx.state == stateDone {
				t.Fatalf("the sender has ended: %v", s.tx.err)
			}
			if err := s.tx.addReceiver(s.rx.Identity()); err != nil {
				t.Fatal(err)
			}
			w.tx.ctl.Kick()
			s.whole(2*time.Second, 100)
		})
	}
}

// TestSilentCandidate: a sender that says a fitting hello and no more, or many of them, keeps
// nobody away.
func TestSilentCandidate(t *testing.T) {
	w := newSimWorld(t, 35, 1)
	cfg := Config{Messages: 100}
	s := w.receiver(w.rx[0], cfg, 77)
	for i := range 20 {
		bad := w.rogue(t, string(rune('a'+i)))
		bad.key += uint64(i)
		bad.connect(s.rx.Identity().Name)
		bad.say(bad.ep, bad.hello(77, nil))
		w.until(time.Minute, func() bool { return len(bad.heard) > 0 })
	}
	s.send(w.tx, cfg, 99, s.rx.Identity())
	s.whole(2*time.Second, 100)
}

// TestFloor: a receiver that asks for tiny datagrams does not make those of the others tiny.
func TestFloor(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		w := newSimWorld(t, 36, 1)
		cfg := Config{Mode: Unreliable, Messages: 1000, BitsPerSecond: 64 * 8 * 5000, Receivers: 1}
		answer := obj{"kind": letterWelcome, "welcome": obj{"grace_ns": "1000000", "datagram_bytes": 25}}
		bad, id := w.badReceiver(t, "bad", answer)
		data := w.nw.Node("bad-data")
		dom, err := data.Open(DataConfig(fabric.Info{MTUBytes: 1472}))
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDataPort(dom)
		if err != nil {
			t.Fatal(err)
		}
		answer["welcome"].(obj)["data"] = d.main.ep.Name()
		answer["welcome"].(obj)["data_key"] = "5"
		var out [8]fabric.Completion
		bad.pass = func() { // it proves its address
			n, _ := d.main.ep.Poll(out[:])
			for _, c := range out[:n] {
				h, ok := parseHeader(d.arena.Bytes(c.Buf))
				if !ok || h.datagram != probeDatagram {
					continue
				}
				for _, l := range bad.heard {
					if l["kind"] == letterHello {
						ep, _ := bad.m.Connect(w.nw.Now(), w.tx.m.Name())
						bad.say(ep, obj{
							"kind": letterProof, "key": l["key"],
							"proof": obj{"nonce": text(proofOf(h.ordinal, bad.m.Name()))},
						})
					}
				}
			}
		}
		s := w.receiver(w.rx[0], cfg, 77)
		ids := []Identity{id, s.rx.Identity()}
		if leaves { // as far as the old rule let it: proven, then gone before the start
			ids[0], ids[1] = ids[1], ids[0]
		}
		cfg.Receivers = 1
		s.send(w.tx, cfg, 99, ids...)
		s.whole(time.Minute, 1000)
		if got := s.tx.cast.datagrams; got != 1 {
			t.Errorf("leaves %v: messages of 64 bytes leave in %d datagrams", leaves, got)
		}
		told := false
		for _, l := range bad.heard {
			told = told || strings.Contains(fmt.Sprint(l["reason"]), "takes datagrams of 25 bytes")
		}
		if !told && !leaves {
			t.Errorf("it was not told why it is refused: %v", bad.heard)
		}
	}
}

// TestForeignExchangeFiles: what is no regular small file ends no wait, and fills no memory.
func TestForeignExchangeFiles(t *testing.T) {
	for name, plant := range map[string]func(string) error{
		"pipe":    func(f string) error { return syscall.Mkfifo(f, 0o600) },
		"endless": func(f string) error { return os.Symlink("/dev/zero", f) },
		"folder":  func(f string) error { return os.Mkdir(f, 0o700) },
		"large":   func(f string) error { return os.WriteFile(f, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := filepath.Join(t.TempDir(), "x")
			if err := plant(at + sendSuffix); err != nil {
				t.Fatal(err)
			}
			if name == "large" {
				if err := os.Truncate(at+sendSuffix, 1<<40); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			ended := aside(func() error {
				_, err := ExchangeFiles(at)(ctx, Identity{Role: RoleReceiver, Key: 1, Name: []byte("r")})
				return err
			})
			select {
			case err := <-ended:
				if !errors.Is(err, ErrTimeout) {
					t.Error(err)
				}
			case <-time.After(patience / 3):
				t.Error("the exchange goes on")
			}
		})
	}
}

func aside(fn func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- fn() }()
	return ended
}
