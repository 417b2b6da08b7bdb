package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// lifeQuestions are the Hellos among packets that ask whether another life has the peer's address.
func lifeQuestions(tb testing.TB, pkts []sentPacket) (asked []frag.Hello) {
	tb.Helper()
	for _, pkt := range kinds(pkts, frag.KindHello) {
		if pkt.hdr.Conn == 0 {
			asked = append(asked, helloIn(tb, pkt.bytes))
		}
	}
	return asked
}

// reject has the script refuse a Hello.
func (s *script) reject(tag uint64, reason uint8, nonce uint64) {
	s.l.tb.Helper()
	r := frag.Reject{
		Reason: reason, Nonce: nonce, VersionMin: frag.Version, VersionMax: frag.Version,
	}
	b := make([]byte, frag.RejectBytes)
	s.raw(0, b[:frag.EncodeReject(b, tag, frag.Version, r)])
	s.run(2)
}

// A peer that leaves packets unanswered is asked whether it is there still, in the life that is
// known of it, and not by everybody at every resend. Only an answer to that question counts, and
// only one that says that it is another life.
func TestSilentPeerIsAskedForItsLife(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	ep := s.connect()
	sendOrFail(t, ep, 1, []byte("lost"))
	var asked []frag.Hello
	for range 4000 {
		l.step(time.Millisecond)
		asked = append(asked, lifeQuestions(t, s.take())...)
	}
	if len(asked) < 2 || len(asked) > 12 {
		t.Fatalf("asked %d times in 4 s", len(asked))
	}
	first := asked[0]
	if first.Expected != s.hello.Incarnation || first.Tag != tagOf(ep) || first.Nonce == 0 ||
		len(first.CommandCookie)+len(first.DataCookie) > 0 {
		t.Fatalf("asked %+v", first)
	}
	for name, forged := range map[string]func(){
		"a nonce of nobody":     func() { s.reject(tagOf(ep), frag.RejectStale, first.Nonce+1) },
		"no nonce":              func() { s.reject(tagOf(ep), frag.RejectStale, 0) },
		"another reason":        func() { s.reject(tagOf(ep), frag.RejectFull, first.Nonce) },
		"another endpoint's":    func() { s.reject(tagOf(ep)+1<<40, frag.RejectStale, first.Nonce) },
		"a reason of no moment": func() { s.reject(tagOf(ep), frag.RejectLater, first.Nonce) },
	} {
		if forged(); !ep.Connected() {
			t.Fatalf("%s: %v", name, ep.Err())
		}
	}
	r := frag.Reject{Reason: frag.RejectStale, Nonce: first.Nonce}
	if l.mods[0].all.Endings.EndRestarted(tagOf(ep), r, []byte("another")) {
		t.Error("somebody at another address answers for the peer")
	}
	s.reject(tagOf(ep), frag.RejectStale, first.Nonce)
	if !errors.Is(ep.Err(), ErrPeerRestarted) {
		t.Errorf("refused by another life: %v", ep.Err())
	}
	if err := l.mods[0].Check(); err != nil {
		t.Error(err)
	}
}

// Once the peer was heard a question is answered: what was seen of it is worth nothing later, and
// the next one has another nonce.
func TestLifeQuestionIsOver(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	ep := s.connect()
	sendOrFail(t, ep, 1, []byte("lost"))
	ask := func() frag.Hello {
		s.take()
		for range 100 {
			l.step(time.Millisecond)
		}
		l.mods[0].all.At(l.now)
		l.mods[0].all.Timers.Watches.AskLife(&ep.c)
		asked := lifeQuestions(t, s.run(2))
		if len(asked) == 0 {
			t.Fatal("not asked")
		}
		return asked[0]
	}
	first := ask()
	s.frag(s.next, 1, []byte("well"))
	s.next++
	s.run(2)
	s.reject(tagOf(ep), frag.RejectStale, first.Nonce)
	if !ep.Connected() {
		t.Fatalf("the peer was heard, and is another one: %v", ep.Err())
	}
	second := ask()
	s.reject(tagOf(ep), frag.RejectStale, first.Nonce)
	if second.Nonce == first.Nonce || !ep.Connected() {
		t.Fatalf("the nonce of an earlier question: %v", ep.Err())
	}
	s.reject(tagOf(ep), frag.RejectStale, second.Nonce)
	if !errors.Is(ep.Err(), ErrPeerRestarted) {
		t.Errorf("refused by another life: %v", ep.Err())
	}
}

// Who has asked nothing takes no answer, not even one without a nonce.
func TestConnectedTakesNoReject(t *testing.T) {
	_, s := newStranger(t, smallConfig())
	ep := s.connect()
	s.reject(tagOf(ep), frag.RejectStale, 0)
	if !ep.Connected() {
		t.Error(ep.Err())
	}
}

// A module that is killed and comes back at once at its address: who sends to it knows that long
// before PeerTimeout is over, and so does who waits for a sign of life. A module that only stands
// still for as long is the same one afterwards.
func TestRestartIsNoticedWhenAsked(t *testing.T) {
	for sends, limit := range map[bool]time.Duration{true: time.Second, false: 5 * time.Second} {
		cfg := smallConfig()
		cfg.PeerTimeout, cfg.KeepAlive = 20*time.Second, time.Second
		l := newLab(t, mem.Config{}, 0, cfg)
		l.add(cfg, "client")
		l.add(cfg, "server")
		ep, _ := l.pair()
		l.settle(time.Second)

		if err := l.mods[1].Close(); err != nil { // without a word
			t.Fatal(err)
		}
		l.idleFor(50 * time.Millisecond)
		l.add(cfg, "server")
		if sends {
			sendOrFail(t, ep, 1, make([]byte, 100))
		}
		from := l.now
		for ep.Err() == nil && l.now.Sub(from) < limit {
			l.step(time.Millisecond)
		}
		if !errors.Is(ep.Err(), ErrPeerRestarted) {
			t.Errorf("sends %v: after %v: %v", sends, l.now.Sub(from), ep.Err())
		}
	}
}
