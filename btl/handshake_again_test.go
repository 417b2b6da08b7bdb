package btl

import (
	"strings"
	"testing"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// twoEnds is a module that connects to a script, which plays two ends of its peer.
type twoEnds struct {
	*lab
	m *Module
	s *script
}

func newTwoEnds(t *testing.T, cfg Config, lower bool) *twoEnds {
	l := newLab(t, mem.Config{}, 1, cfg)
	w := &twoEnds{l, l.mods[0], l.newScript(0)}
	if w.s.incarnation = 1; lower {
		w.s.incarnation = 1<<64 - 1
	}
	w.s.hello.Incarnation = w.s.incarnation
	return w
}

// connect begins a handshake with the script, and returns the nonces of its Hellos.
func (w *twoEnds) connect() (ep *Endpoint, nonces [frag.ProbeCount]uint64) {
	w.tb.Helper()
	w.s.take()
	ep, err := w.m.Connect(w.now, w.s.address())
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, pkt := range kinds(w.s.run(2), frag.KindHello) {
		if hello := helloIn(w.tb, pkt.bytes); hello.Tag == tagOf(ep) {
			nonces[hello.Probe] = hello.Nonce
		}
	}
	return ep, nonces
}

// answer has an end of the peer answer an endpoint's Hellos.
func (w *twoEnds) answer(tag uint64, ep *Endpoint, nonces [frag.ProbeCount]uint64) {
	w.tb.Helper()
	w.s.hello.Tag = tag
	for p := range frag.Probe(frag.ProbeCount) {
		w.s.hello.Nonce = nonces[p]
		w.s.raw(probeChannel(p), w.s.packHello(frag.KindHelloAck, tagOf(ep), p))
	}
	w.step(time.Microsecond)
}

// ask has an end of the peer say Hello, and show what proves it.
func (w *twoEnds) ask(tag, conn uint64) {
	w.tb.Helper()
	w.s.hello.Tag = tag
	w.s.raw(0, w.s.packHello(frag.KindHello, conn, frag.ProbeCommand))
	w.step(time.Microsecond)
}

// An endpoint that has told its tag to one end of the peer, and hears of another one, gives the
// first one a round trip to prove itself before it begins again under a new tag; the side with the
// higher incarnation 20 ms more.
func TestContestWaits(t *testing.T) {
	const first, second, trip = 71, 72, 30 * time.Millisecond
	for _, lower := range []bool{true, false} {
		for _, proves := range []bool{true, false} {
			w := newTwoEnds(t, smallConfig(), lower)
			w.s.hello.Tag = first
			w.s.meet()
			ep, nonces := w.connect()
			before := tagOf(ep)
			w.idleFor(trip)
			for p := range frag.Probe(frag.ProbeCount) { // which tells how long the way is
				b := make([]byte, frag.HelloBytesMax)
				r := frag.Retry{Nonce: nonces[p], Probe: p, Addr: w.s.name[p], Cookie: []byte{1}}
				w.s.raw(probeChannel(p), b[:r.Encode(b, tagOf(ep))])
			}
			w.step(time.Microsecond)
			w.ask(first, 0)
			if ep.c.ID.Handshake.Offered != first {
				t.Fatalf("told to %d", ep.c.ID.Handshake.Offered)
			}
			w.answer(second, ep, nonces)
			w.idleFor(trip - time.Millisecond)
			if tagOf(ep) != before || ep.c.ID.Handshake.Bound {
				t.Errorf("lower: %v: begins again before the first end could prove itself", lower)
			}
			if proves {
				w.ask(first, tagOf(ep))
			}
			again := 3 * time.Millisecond
			if w.idleFor(again); !lower {
				if tagOf(ep) != before {
					t.Error("the higher side begins again with the lower one")
				}
				w.idleFor(meet.HelloIntervalMin)
			}
			if proves != (tagOf(ep) == before) || proves != (peerTagOf(ep) == first) {
				t.Errorf("lower: %v, proven: %v: tag %x of %x, peer's %d", lower, proves, tagOf(ep), before,
					peerTagOf(ep))
			}
		}
	}
}

// An endpoint that has told its tag to an end of the peer with which another connection of this
// side was made meanwhile deals with the next end at once: that one will not use the tag.
func TestOfferedEndIsTaken(t *testing.T) {
	const first, second = 71, 72
	w := newTwoEnds(t, smallConfig(), false)
	w.s.hello.Tag = first
	w.s.meet()
	old, toOld := w.connect()
	send(t, old, 100)
	old.Close(w.now)
	ep, nonces := w.connect()
	if ep == old {
		t.Fatal("the one that closes was returned")
	}
	w.ask(first, 0)
	if ep.c.ID.Handshake.Offered != first {
		t.Fatalf("told to %d", ep.c.ID.Handshake.Offered)
	}
	w.answer(first, old, toOld)
	if !old.Connected() || peerTagOf(old) != first {
		t.Fatalf("the old one: state %d, peer's tag %d", old.c.ID.State, peerTagOf(old))
	}
	before := tagOf(ep)
	w.answer(second, ep, nonces)
	if tagOf(ep) != before || !ep.Connected() || peerTagOf(ep) != second {
		t.Errorf("tag %x of %x, state %d, peer's tag %d", tagOf(ep), before, ep.c.ID.State,
			peerTagOf(ep))
	}
}

// A Hello by a channel that has not proven to lead to the peer is not answered with more bytes than
// it has, whatever tag it bears; one that is padded is answered.
func TestAnswerNoLongerThanHello(t *testing.T) {
	cfg := smallConfig()
	cfg.Label = strings.Repeat("l", frag.LabelBytesMax)
	cfg.Away = time.Second
	for _, proven := range []bool{false, true} {
		w := newTwoEnds(t, cfg, true)
		ep, nonces := w.connect()
		if w.s.hello.Tag = 71; proven {
			w.answer(71, ep, nonces)
		}
		for _, padded := range []bool{false, true} {
			if w.s.hello.Padding = 0; padded {
				w.s.hello.Pad()
			}
			asks := w.s.packHello(frag.KindHello, tagOf(ep), frag.ProbeCommand)
			w.s.raw(0, asks)
			answers := kinds(w.s.run(2), frag.KindHelloAck)
			if want := proven || padded; want != (len(answers) == 1) {
				t.Errorf("proven: %v, padded: %v: %d answers", proven, padded, len(answers))
			}
			if !proven && len(answers) > 0 && len(answers[0].bytes) > len(asks) {
				t.Errorf("%d bytes for %d", len(answers[0].bytes), len(asks))
			}
		}
	}
}

// What a module says first by a channel is as long as any answer to it.
func TestHelloIsPadded(t *testing.T) {
	w := newTwoEnds(t, smallConfig(), true)
	if _, err := w.m.Connect(w.now, w.s.address()); err != nil {
		t.Fatal(err)
	}
	answer := frag.Hello{
		CommandName: w.s.name[0], DataName: w.s.name[1], AwayMs: 1,
		Label: make([]byte, frag.LabelBytesMax),
	}
	for _, pkt := range kinds(w.s.run(2), frag.KindHello) {
		if len(pkt.bytes) < answer.Bytes() {
			t.Errorf("%d bytes, an answer may have %d", len(pkt.bytes), answer.Bytes())
		}
	}
}
