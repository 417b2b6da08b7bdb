package probe

import (
	"testing"
	"time"

	"gobtl/btl/internal/pmtu"
)

// endpoint is one of a test, and host what Paths does to it.
type endpoint struct {
	path Path
	slot uint32
}

type host struct {
	s       Paths[*endpoint]
	now     Time
	all     []*endpoint
	silence Silence
	carries int // the largest Ping that is answered
	uses    int
	pings   int
	narrow  int // the base with which the endpoint was ended
	dead    bool
	queue   []uint64 // nonces of Pings to be answered
}

func (h *host) Clocks() (_, _ *Time)       { return &h.now, &h.now }
func (h *host) Random() uint64             { return 77 + uint64(h.now) }
func (h *host) At(slot uint32) *endpoint   { return h.all[slot] }
func (h *host) Connected(*endpoint) bool   { return !h.dead }
func (h *host) Silence(*endpoint) Silence  { return h.silence }
func (h *host) Use(_ *endpoint, bytes int) { h.uses = bytes }
func (h *host) EndNarrow(e *endpoint, base int) {
	h.narrow, h.dead = base, true
	h.s.End(e)
}

func (h *host) RoundTrip(*endpoint) (trip, deviation time.Duration) {
	return time.Millisecond, time.Millisecond / 4
}

func (h *host) Ping(_ *endpoint, nonce uint64, bytes int) {
	h.pings++
	if bytes <= h.carries {
		h.queue = append(h.queue, nonce)
	}
}

// run lets time go on until then, and the path carry what it carries.
func (h *host) run(t *testing.T, e *endpoint, until time.Duration) {
	t.Helper()
	for end := h.now.Add(until); h.now < end && !h.dead; {
		for _, nonce := range h.queue {
			if !h.s.Pong(e, nonce) {
				t.Fatal("an answer is not taken")
			}
		}
		h.queue = h.queue[:0]
		h.now = h.s.Deadline().Min(h.now.Add(time.Millisecond)).Min(end)
		h.s.Expire()
		if h.uses != 0 && !h.dead {
			if err := h.s.Check(e, h.uses); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func newHost(t *testing.T, carries int) (*host, *endpoint) {
	t.Helper()
	e := new(endpoint)
	h := &host{now: Time(time.Second), all: []*endpoint{e}, carries: carries}
	h.silence.DeadAfter = time.Second
	of := func(e *endpoint) (*Path, uint32) { return &e.path, e.slot }
	if err := h.s.Init(h, of, 1); err != nil {
		t.Fatal(err)
	}
	return h, e
}

// The search finds what the path carries, follows when that becomes less, and ends the endpoint
// when only the smallest datagrams pass.
func TestFollowsThePath(t *testing.T) {
	h, e := newHost(t, 1<<20)
	h.s.Begin(e, 8972)
	if h.run(t, e, time.Second); h.uses != 8972 {
		t.Errorf("uses %d of a path that carries all", h.uses)
	}
	for _, carries := range []int{1472, 700} {
		h.carries = carries
		if h.silence.Acked = 0; carries < pmtu.BaseBytes {
			h.silence.Acked = time.Minute
		}
		for range 20 {
			h.s.Lost(e, h.uses, true)
		}
		h.run(t, e, 10*time.Second)
		if carries == 1472 && h.uses != 1472 {
			t.Errorf("uses %d of a path that carries 1472", h.uses)
		}
	}
	if h.narrow != pmtu.BaseBytes || h.s.Len() != 0 {
		t.Errorf("ended as too narrow for %d bytes, %d timers are left", h.narrow, h.s.Len())
	}
}

// While the peer acknowledges something the path is not narrow, unless an acknowledgement is owed
// for as long as a dead peer's; nor is it if the peer is silent, for that is dead.
func TestNarrow(t *testing.T) {
	h, e := newHost(t, 700)
	h.silence.Acked = 0 // so that nothing ends meanwhile
	h.s.Begin(e, 1472)
	h.run(t, e, time.Second)
	for range 20 {
		h.s.Lost(e, h.uses, true)
	}
	h.run(t, e, 2*time.Second)
	for _, c := range []struct {
		quiet, acked, after time.Duration
		want                bool
	}{
		{0, time.Second, time.Second, true},
		{0, time.Second / 2, time.Second, false},
		{0, 0, 0, true},
		{time.Second, time.Second, time.Second, false},
		{0, time.Minute, time.Minute, false},
	} {
		h.silence.Quiet, h.silence.Acked = c.quiet, c.acked
		if got := h.s.Narrow(e, c.after); got != c.want {
			t.Errorf("quiet for %v, acknowledged %v ago: narrow after %v: %v", c.quiet, c.acked, c.after,
				got)
		}
	}
}

// So many Pings of a peer are answered in an interval, and as many in the next one.
func TestPongsBounded(t *testing.T) {
	var p Path
	for _, now := range []Time{1, 1 + Time(pongsEvery)} {
		n := 0
		for ; p.MayPong(now); n++ {
			p.Ponged()
		}
		if n != pongsMax {
			t.Errorf("%d answers", n)
		}
	}
}

// A Pong is one of a measurement, once, or of the search, or of neither.
func TestPongs(t *testing.T) {
	h, e := newHost(t, 0)
	h.s.Begin(e, 1472)
	if h.s.Pong(e, 4711) {
		t.Error("the Pong of nobody's Ping is taken")
	}
	if _, ok := e.path.Measured(h.now, 0); ok {
		t.Error("something is measured that was not asked")
	}
	if !e.path.MayMeasure(h.now) {
		t.Fatal("a far peer is not measured")
	}
	e.path.Measure(h.now, 9)
	if _, ok := e.path.Measured(h.now+1, 9); !ok {
		t.Error("the answer is not taken")
	}
	if _, ok := e.path.Measured(h.now+1, 9); ok {
		t.Error("the answer is taken twice")
	}
}

// A search that is over keeps no memory. The loss of small packets changes nothing, and losses of
// packets of the size in use start a doubt as in any search.
func TestOverKeepsNoMemory(t *testing.T) {
	for _, most := range []int{1000, 1472} {
		h, e := newHost(t, 1<<20)
		h.s.Begin(e, most)
		h.run(t, e, time.Second)
		for range 5 {
			h.s.Lost(e, 300, true)
		}
		if p := &e.path; p.search != nil || !p.Begun() || p.FirstProbePending() || p.Searching() ||
			h.uses != most || h.s.Check(e, most) != nil || h.s.Check(e, most-1) == nil {
			t.Fatalf("up to %d bytes: %+v, uses %d", most, e.path, h.uses)
		}
		if why := e.path.Why(false); why != "all that both devices take" {
			t.Errorf("up to %d bytes: %s", most, why)
		}
		pings := h.pings
		h.carries = 700
		for range 3 {
			h.s.Lost(e, most, true)
		}
		if !e.path.WantsDelivered() || !e.path.Searching() || h.pings == pings {
			t.Fatalf("up to %d bytes: no doubt after losses: %+v", most, e.path)
		}
		h.run(t, e, 100*time.Millisecond)
		h.carries = 1 << 20
		if h.run(t, e, 10*time.Second); h.uses != most || e.path.WantsDelivered() {
			t.Errorf("up to %d bytes: uses %d after the doubt", most, h.uses)
		}
	}
}

// A search that ends while packets count as lost keeps its memory, because ACKs concern it.
func TestOverWithLosses(t *testing.T) {
	h, e := newHost(t, 1<<20)
	h.s.Begin(e, 1472)
	h.s.Lost(e, 1000, true)
	h.run(t, e, time.Second)
	if !e.path.WantsDelivered() || h.uses != 1472 {
		t.Fatalf("uses %d, %+v", h.uses, e.path)
	}
	e.path.Delivered(h.now, h.now, 1472, true)
	if err := h.s.Check(e, 1472); err != nil || e.path.WantsDelivered() {
		t.Errorf("%v, %+v", err, e.path)
	}
}

// A packet that this host refuses as too large starts a doubt, also when the search was over.
func TestRefusedWhenOver(t *testing.T) {
	h, e := newHost(t, 1<<20)
	h.s.Begin(e, 1472)
	h.run(t, e, time.Second)
	if h.s.Refused(e, 1472); !e.path.WantsDelivered() {
		t.Errorf("no doubt: %+v", e.path)
	}
}
