package meet

import (
	"errors"
	"testing"
	"time"

	"gobtl/frag"
)

// fakeHost is a Host that notes what it is told.
type fakeHost struct {
	s         *Handshakes[*node]
	now       Time
	timer     time.Duration // the latest one
	ended     []*node
	why       Why
	connected []*node
	merged    []*node
	settled   int
	restarted int
	early     int
	takes     int
	hellos    []frag.Hello
	kinds     []frag.Kind
	rejects   []frag.Reject
	rejected  []uint64 // tags of the receivers of rejects
	retries   []frag.Retry
	unusable  *node
	answer    Answer // of Ask
	asked     []uint64
	moves     []frag.Hello
	moveErr   error
	silent    int
	rested    bool // AskSilentHosts may probe peers now
	probed    []*node
}

var errMake = errors.New("no such address")

func (h *fakeHost) Clock() *Time { return &h.now }
func (h *fakeHost) Pass() uint64 { return uint64(h.now) }

func (h *fakeHost) Make(cmd, data []byte, _, _ int) (*node, error) {
	if h.s.peers.Full() || len(data) == 0 {
		return nil, errMake
	}
	n := new(node)
	h.s.Enter(n, string(cmd))
	return n, nil
}

func (h *fakeHost) Adopt(_ *node, data []byte, _ *frag.Name) error {
	if len(data) == 0 {
		return errMake
	}
	return nil
}

func (h *fakeHost) Bind(*node, *frag.Header, *frag.Hello) {}

func (h *fakeHost) Connected(n *node, earlier []*node) {
	h.connected = append(h.connected, n)
	for _, e := range earlier {
		h.End(e, WhyRestarted, frag.Reject{})
	}
}

func (h *fakeHost) Settled(*node, bool, bool) { h.settled++ }
func (h *fakeHost) Restarted(*node)           { h.restarted++ }
func (h *fakeHost) Supersede(*node)           {}
func (h *fakeHost) Merge(_, half *node)       { h.merged = append(h.merged, half) }

func (h *fakeHost) End(n *node, why Why, _ frag.Reject) {
	h.ended, h.why = append(h.ended, n), why
	h.s.peers.Remove(n)
}

func (h *fakeHost) SetTimer(_ *node, d time.Duration) { h.timer = d }
func (h *fakeHost) Usable(n *node) bool               { return n != h.unusable }
func (h *fakeHost) Quiet(*node) time.Duration         { return 0 }
func (h *fakeHost) Heard(*node, frag.Probe, bool)     {}
func (h *fakeHost) Early(*node)                       { h.early++ }
func (h *fakeHost) Takes(*node)                       { h.takes++ }
func (h *fakeHost) GiveUp([]byte)                     {}
func (h *fakeHost) Ask(_ *frag.Hello, id uint64) Answer {
	h.asked = append(h.asked, id)
	return h.answer
}
func (h *fakeHost) Move(*node, *frag.Name) error { return h.moveErr }
func (h *fakeHost) SendMoved(_ []byte, _ uint64, hello *frag.Hello) {
	h.moves = append(h.moves, *hello)
}
func (h *fakeHost) Shut() bool              { return false }
func (h *fakeHost) Full() bool              { return false }
func (h *fakeHost) AskSilent()              { h.silent++ }
func (h *fakeHost) AskSilentOf(few []*node) { h.probed = append(h.probed, few...) }

func (h *fakeHost) AskSilentHosts(holds func(*node) bool) bool {
	for _, n := range h.s.peers.All() {
		if h.rested && n != nil && holds(n) {
			h.probed = append(h.probed, n)
		}
	}
	return h.rested
}

func (h *fakeHost) SendReject(_ frag.Probe, _ []byte, tag uint64, _ uint8, r frag.Reject) {
	h.rejects, h.rejected = append(h.rejects, r), append(h.rejected, tag)
}

func (h *fakeHost) SendHello(_ *node, kind frag.Kind, _ uint64, hello *frag.Hello, _ []byte) {
	h.hellos, h.kinds = append(h.hellos, *hello), append(h.kinds, kind)
}

func (h *fakeHost) SendRetry(_ frag.Probe, _ []byte, _ uint64, retry func() *frag.Retry) bool {
	h.retries = append(h.retries, *retry())
	return true
}

// newHandshakes begins with an empty table and numbers that count up.
func newHandshakes(t *testing.T, places int) (*Handshakes[*node], *fakeHost) {
	t.Helper()
	next := uint64(0)
	h := &fakeHost{s: new(Handshakes[*node]), now: Time(time.Second)}
	h.s.Init(newTable(places), h, &frag.Hello{
		CommandName: []byte("me, command"), DataName: []byte("me, data"), MTUBytes: 1500,
		CommandBytes: 768, WindowPkts: 64, VersionMin: frag.Version, VersionMax: frag.Version,
	}, func() uint64 { next++; return next << 40 }, 3*time.Second)
	return h.s, h
}

// half makes a half-open endpoint of a life of a peer.
func half(t *testing.T, s *Handshakes[*node], addr string, life uint64) *node {
	t.Helper()
	n, answer := s.accept(&frag.Header{}, &frag.Hello{
		Incarnation: life, Tag: 4711, CommandName: []byte(addr), DataName: []byte("data"),
	})
	if n == nil || answer.Reason != 0 {
		t.Fatalf("refused: %+v", answer)
	}
	return n
}

// A half-open endpoint that proves itself ends the Connect to an earlier life of its peer at once:
// no answer of that life that comes late can end the connection to the later one.
func TestEarlierLifeEndsWithProof(t *testing.T) {
	s, h := newHandshakes(t, 8)
	old, err := s.Connect(&frag.Name{Command: []byte("a"), Data: []byte("data"), Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	later := half(t, s, "a", 2)
	if s.validate(later) != later || len(h.ended) != 1 || h.ended[0] != old ||
		h.why != WhyRestarted || !s.peers.Known(later) {
		t.Errorf("ended %d endpoints, %v; the later one is reached: %v", len(h.ended), h.why,
			s.peers.Known(later))
	}
	if err := s.peers.Check(); err != nil {
		t.Error(err)
	}
}

// What one end of the peer has said, that it is established, is not true of the next one with which
// the handshake begins again: the host forgets it, and the tag is another one.
func TestBeginsAgain(t *testing.T) {
	s, h := newHandshakes(t, 8)
	ep, err := s.Dial([]byte("a"), []byte("data"), 768, 1500)
	if err != nil {
		t.Fatal(err)
	}
	before, hs := ep.id.Tag, ep.id.Handshake
	ep.id.Handshake.Bound = true
	s.restart(ep)
	if h.restarted != 1 || ep.id.Tag == before || ep.id.Handshake == hs ||
		ep.id.Handshake.Bound || h.timer != 0 {
		t.Errorf("restarted %d times, another tag: %v, timer %v", h.restarted, ep.id.Tag != before,
			h.timer)
	}
	if !ep.id.Handshake.wanted {
		t.Error("the goal is lost")
	}
}

// Merge copies all that the handshake has settled: one end of the connection must not refuse what
// the other one may send.
func TestMergeTakesTheAgreement(t *testing.T) {
	s, h := newHandshakes(t, 8)
	ep, err := s.Dial([]byte("a"), []byte("data"), 768, 1500)
	if err != nil {
		t.Fatal(err)
	}
	other := half(t, s, "a", 0)
	other.id.Agreement = Agreement{
		Counted: true, Operates: true, Selective: true, MayAskAck: true, MayWait: true,
	}
	want, tag := other.id.Agreement, other.id.Tag
	if got := s.validate(other); got != ep || len(h.merged) != 1 || h.merged[0] != other {
		t.Fatalf("went on with another endpoint, %d merged", len(h.merged))
	}
	if ep.id.Agreement != want || ep.id.Tag != tag || !ep.id.Handshake.wanted ||
		other.id.Handshake != nil {
		t.Errorf("settled %+v, tag %#x, wanted %v", ep.id.Agreement, ep.id.Tag, ep.id.Handshake.wanted)
	}
	if err := s.peers.Check(); err != nil {
		t.Error(err)
	}
}

// A packet of a peer confirms an endpoint that has answers by both channels, and no other.
func TestPacketConfirms(t *testing.T) {
	s, h := newHandshakes(t, 8)
	ep, err := s.Dial([]byte("a"), []byte("data"), 768, 1500)
	if err != nil {
		t.Fatal(err)
	}
	if s.OnPacket(ep) != nil || h.early != 1 {
		t.Error("confirmed before the peer has said anything")
	}
	s.Bind(ep, &frag.Header{}, &frag.Hello{Tag: 5})
	ep.id.Handshake.Proven |= frag.ProbeCommand.Bit()
	if s.OnPacket(ep) != nil || h.early != 2 || len(h.connected) != 0 {
		t.Error("confirmed while one channel is silent")
	}
	ep.id.Handshake.Proven |= frag.ProbeData.Bit()
	if s.OnPacket(ep) != ep || len(h.connected) != 1 || h.settled != 1 || !ep.id.Settled() {
		t.Error("not confirmed")
	}
}

// Connect returns the endpoint that is there, unless that is being closed, and leaves nothing
// behind for an address that cannot be used.
func TestConnectOnce(t *testing.T) {
	s, h := newHandshakes(t, 2)
	name := &frag.Name{Command: []byte("a"), Data: []byte("data"), Incarnation: 1}
	first, err := s.Connect(name)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Connect(name); again != first || err != nil || len(h.hellos) != 2 {
		t.Errorf("another endpoint, or %v; %d Hellos", err, len(h.hellos))
	}
	h.unusable = first
	second, err := s.Connect(name)
	if err != nil || second == first || second.id.Displaced() != first {
		t.Errorf("the one that is being closed is returned, or %v", err)
	}
	if _, err := s.Connect(&frag.Name{Command: []byte("b")}); !errors.Is(err, errMake) {
		t.Errorf("connected to no address: %v", err)
	}
	if s.peers.Len() != 2 {
		t.Errorf("%d endpoints", s.peers.Len())
	}
}

// A handshake without an answer ends at its time, and asks seldom.
func TestTimesOut(t *testing.T) {
	s, h := newHandshakes(t, 2)
	ep, err := s.Dial([]byte("a"), []byte("data"), 768, 1500)
	if err != nil {
		t.Fatal(err)
	}
	began := h.now
	for len(h.ended) == 0 {
		if h.timer <= 0 || h.now.Sub(began) > 3*time.Second {
			t.Fatalf("after %v the timer is %v", h.now.Sub(began), h.timer)
		}
		h.now = h.now.Add(h.timer)
		s.OnTimer(ep)
	}
	if h.why != WhyUnanswered || h.now.Sub(began) != 3*time.Second || len(h.hellos) > 40 {
		t.Errorf("%v after %v and %d Hellos", h.why, h.now.Sub(began), len(h.hellos))
	}
}

// A Hello that proves nothing gets a Retry, and one that proves its addresses a HelloAck of a
// half-open endpoint; a module without a place rejects it.
func TestStrangerIsAnswered(t *testing.T) {
	s, h := newHandshakes(t, 1)
	hello := frag.Hello{
		Incarnation: 9, Tag: 5, CommandName: []byte("a"), DataName: []byte("d"), WindowPkts: 64,
		MTUBytes: 1500, CommandBytes: 768,
	}
	const helloBytes = 1000
	for p := range frag.Probe(frag.ProbeCount) {
		hello.Probe = p
		s.OnHello(p, &frag.Header{}, &hello, helloBytes, Claimed(&hello, p))
	}
	if len(h.retries) != 2 || s.peers.Len() != 0 {
		t.Fatalf("%d Retries, %d endpoints", len(h.retries), s.peers.Len())
	}
	hello.CommandCookie, hello.DataCookie = h.retries[0].Cookie, h.retries[1].Cookie
	if !s.OnHello(frag.ProbeData, &frag.Header{}, &hello, helloBytes, []byte("d")) ||
		s.peers.HalfOpen != 1 || len(h.kinds) != 1 || h.kinds[0] != frag.KindHelloAck {
		t.Fatalf("%d half open, answers %v", s.peers.HalfOpen, h.kinds)
	}
	if h.hellos[0].Proven != 0 {
		t.Error("a half-open endpoint says that the channels are proven")
	}
	h.now++
	other := hello
	other.Tag = 6
	other.CommandCookie, other.DataCookie = nil, nil
	for p := range frag.Probe(frag.ProbeCount) {
		other.Probe = p
		s.OnHello(p, &frag.Header{}, &other, helloBytes, Claimed(&other, p))
	}
	other.CommandCookie, other.DataCookie = h.retries[2].Cookie, h.retries[3].Cookie
	if s.OnHello(frag.ProbeData, &frag.Header{}, &other, helloBytes, []byte("d")) ||
		len(h.rejects) != 1 || h.rejects[0].Reason != frag.RejectFull || h.silent == 0 {
		t.Errorf("a full table answers %+v, and asks %d times", h.rejects, h.silent)
	}
}
