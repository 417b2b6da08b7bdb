package liveness

import (
	"testing"
	"time"
)

// endpoint is one of a test, and host what Watches does to it.
type endpoint struct {
	watch Watch
	slot  uint32
	view  View
}

type host struct {
	s         Watches[*endpoint]
	now       Time
	all       []*endpoint
	latest    *endpoint
	asked     []int // by which channel
	questions int
	noRoom    bool
	lives     []uint64
	rounds    int
	ended     bool
	why       Why
}

func (h *host) Clocks() (_, _ *Time)     { return &h.now, &h.now }
func (h *host) View(e *endpoint) View    { return e.view }
func (h *host) Sent(*endpoint) Sent      { return Sent{} }
func (h *host) At(slot uint32) *endpoint { return h.all[slot] }
func (h *host) All() []*endpoint         { return h.all }

func (h *host) Latest(*endpoint) *endpoint           { return h.latest }
func (h *host) LeadTo(*endpoint)                     {}
func (h *host) Handshake(*endpoint)                  { h.rounds++ }
func (h *host) SendRound(*endpoint) time.Duration    { h.rounds++; return time.Second }
func (h *host) ConfirmAgain(*endpoint) time.Duration { h.rounds++; return time.Second }
func (h *host) Ask(_ *endpoint, channel int)         { h.asked = append(h.asked, channel) }
func (h *host) Question(*endpoint) bool              { h.questions++; return !h.noRoom }
func (h *host) AskLife(_ *endpoint, nonce uint64)    { h.lives = append(h.lives, nonce) }
func (h *host) Random() uint64                       { return 4711 }
func (h *host) End(e *endpoint, why Why, _ Verdict)  { h.ended, h.why = true, why; h.s.Clear(e) }
func (h *host) until(t *testing.T, d time.Duration) {
	t.Helper()
	for end := h.now.Add(d); h.now < end && !h.ended; {
		h.now = h.s.Deadline().Min(end)
		h.s.Expire()
		for _, e := range h.all {
			if e != nil && e.watch.Runs() {
				if err := h.s.Check(e); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// expire has what is due now done: a timer is late by less than a tick of the hotel.
func (h *host) expire() {
	h.now = h.now.Add(100 * time.Microsecond)
	h.s.Expire()
}

// newHost has one endpoint, of which nothing is heard.
func newHost(t *testing.T, v View) (*host, *endpoint) {
	t.Helper()
	e := &endpoint{view: v}
	h := &host{now: 1000 * second, all: []*endpoint{e, nil}}
	of := func(e *endpoint) (*Watch, uint32) { return &e.watch, e.slot }
	if err := h.s.Init(h, of, len(h.all), rules, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	e.watch.Begin(h.now)
	e.watch.BeginChannels(h.now, Sent{})
	return h, e
}

// Each state of a silent peer ends in its way and at its time, and not before.
func TestSilentPeerEnds(t *testing.T) {
	const answers = 14 * time.Second // an eighth, and three quarters, of PeerTimeout
	connected := View{Connected: true, Open: true}
	with := func(change func(*View)) View {
		v := connected
		change(&v)
		return v
	}
	for _, c := range []struct {
		name  string
		view  View
		begin func(h *host, e *endpoint)
		why   Why
		after time.Duration
		asks  int // questions, at least
	}{
		{"keep alive", connected, nil, WhyDead, rules.KeepAlive + answers, TriesMin},
		{
			"closing", with(func(v *View) { v.Closing, v.CloseAt = true, 1000*second }), nil, WhyClosed,
			3 * time.Second, 0,
		},
		{
			"half open",
			View{Accepting: true},
			func(h *host, e *endpoint) { h.s.Set(e, 2*time.Second) },
			WhyUnproven, 2 * time.Second, 0,
		},
		{
			"lingering",
			View{Lingering: true},
			func(h *host, e *endpoint) { h.s.Set(e, time.Second) },
			WhyLingered, time.Second, 0,
		},
		{"broken", connected, func(h *host, e *endpoint) { h.s.Break(e) }, WhyBroken, 0, 0},
		{
			"superseded", connected, func(h *host, e *endpoint) { h.s.Supersede(e) }, WhyDead,
			rules.PeerTimeout, TriesMin,
		},
		{
			"owes a confirmation", with(func(v *View) { v.Counted, v.InFlight = true, true }),
			func(h *host, e *endpoint) { e.watch.Confirmed(); h.s.Resume(e) }, WhyDead,
			rules.PeerTimeout, TriesMin,
		},
		{
			"owes an answer", with(func(v *View) { v.Asks = true }), nil, WhyDead, rules.PeerTimeout,
			TriesMin,
		},
		{
			"not known to be connected",
			with(func(v *View) { v.Handshaking, v.Counted = true, true }),
			func(h *host, e *endpoint) { h.s.Set(e, 0) }, WhyDead, rules.PeerTimeout, TriesMin,
		},
	} {
		h, e := newHost(t, c.view)
		if c.begin == nil {
			h.s.Resume(e)
		} else {
			c.begin(h, e)
		}
		began := h.now
		h.until(t, time.Minute)
		asks := len(h.asked) + h.questions + h.rounds
		// A question that was asked just before the time is over has its own time for an answer.
		const late = 600 * time.Millisecond
		if took := h.now.Sub(began); !h.ended || h.why != c.why || took < c.after ||
			took > c.after+late || asks < c.asks {
			t.Errorf("%s: ended %v, why %d, after %v, asked %d times", c.name, h.ended, h.why, took, asks)
		}
		if h.s.Len() != 0 {
			t.Errorf("%s: %d timers are left", c.name, h.s.Len())
		}
	}
}

// An idle peer has three quarters of PeerTimeout for its answer to the first question, even if it
// was idle for longer than PeerTimeout before, and whatever the question was for. It is dead before
// PeerTimeout has passed since the first question.
func TestIdlePeerHasItsTime(t *testing.T) {
	for name, ask := range map[string]func(h *host, e *endpoint){
		"keep alive": func(h *host, _ *endpoint) { h.until(t, h.s.Rules.KeepAlive/2) },
		"no places": func(h *host, _ *endpoint) {
			h.s.AskSilent(Places, func(*endpoint) bool { return true })
		},
		"answer": func(h *host, e *endpoint) { e.view.Asks = true; h.s.WatchAsks(e) },
	} {
		h, e := newHost(t, View{Connected: true, Open: true})
		h.s.Rules = Rules{PeerTimeout: 5 * time.Second, KeepAlive: 20 * time.Second}
		h.s.Resume(e)
		h.until(t, h.s.Rules.KeepAlive/2)
		asked := len(h.asked)
		for ask(h, e); len(h.asked) == asked && !h.ended; {
			h.until(t, 10*time.Millisecond)
		}
		h.until(t, h.s.Rules.PeerTimeout*3/4)
		if h.ended {
			t.Errorf("%s: dead %d questions after the first", name, len(h.asked)-asked-1)
		}
		if h.until(t, h.s.Rules.PeerTimeout/4); !h.ended {
			t.Errorf("%s: not dead after PeerTimeout and %d questions", name, len(h.asked)-asked)
		}
	}
}

// A peer that answers each question lives, and what it has sent too early is asked for at once.
func TestAnsweringPeerLives(t *testing.T) {
	h, e := newHost(t, View{Connected: true, Counted: true, InFlight: true})
	e.watch.Early()
	h.s.Takes(e)
	if h.expire(); h.questions != 1 {
		t.Fatalf("%d questions for what was missed", h.questions)
	}
	for range 100 {
		h.until(t, time.Second)
		e.watch.Heard(h.now, 0)
	}
	if h.ended {
		t.Errorf("ended, why %d", h.why)
	}
}

// A peer that does not know yet that it is connected is asked by a Hello, never by a packet with a
// number; one without room for a question is asked again soon.
func TestQuestionsOfConfirmation(t *testing.T) {
	h, e := newHost(t, View{Connected: true, Counted: true, InFlight: true})
	h.s.Watch(e, 0)
	h.now += second
	if h.expire(); h.questions != 0 || len(h.asked) != 1 {
		t.Errorf("%d questions, %d Hellos", h.questions, len(h.asked))
	}
	h.s.Takes(e)
	e.watch.Early()
	h.noRoom = true
	h.s.Watch(e, 0)
	h.expire()
	const late = time.Millisecond
	if left := h.s.Deadline().Sub(h.now); h.questions != 1 || left > helloIntervalMax+late {
		t.Errorf("%d questions, the next one in %v", h.questions, left)
	}
	e.watch.BeginAgain() // with another end, which has said nothing yet
	h.s.Watch(e, 0)
	if h.expire(); h.questions != 1 || len(h.asked) != 2 {
		t.Errorf("%d questions, %d Hellos to another end", h.questions, len(h.asked))
	}
}

// Take has an endpoint go on with the timer of another one, which has none afterwards.
func TestTake(t *testing.T) {
	h, half := newHost(t, View{Connected: true})
	ep := &endpoint{slot: 1}
	h.all[1] = ep
	h.s.Set(ep, time.Second)
	h.s.Set(half, time.Minute)
	h.s.Take(ep, half)
	ep.slot = half.slot
	if err := h.s.Check(ep); err != nil || half.watch.Runs() || h.s.Len() != 1 ||
		h.s.Deadline().Sub(h.now) < 59*time.Second {
		t.Errorf("%v; %d timers, the first in %v", err, h.s.Len(), h.s.Deadline().Sub(h.now))
	}
}

// Silent endpoints that hold what others want are asked before their time, at intervals, and only
// those. Who wants one thing all the time does not delay the questions for another thing.
func TestAskSilent(t *testing.T) {
	all := func(*endpoint) bool { return true }
	for why := range Scarce(scarceCount) {
		h, e := newHost(t, View{Connected: true, Open: true})
		h.now += 3 * second
		h.s.AskSilent(why, func(*endpoint) bool { return false })
		if h.s.AskSilent(why, all) || e.watch.Pressed {
			t.Error("asked though it holds nothing, or twice in an interval")
		}
		h.now += 3 * second
		h.s.AskSilent(why, all)
		if h.expire(); len(h.asked) != 1 {
			t.Errorf("asked %d times", len(h.asked))
		}
		h.now += 3 * second
		e.watch.Pressed = false
		for other := range Scarce(scarceCount) {
			if other != why {
				h.s.AskSilent(other, func(*endpoint) bool { return false })
			}
		}
		if !h.s.AskSilent(why, all) || !e.watch.Pressed {
			t.Errorf("resource %d: not asked because of the others", why)
		}
	}
}

// A few endpoints are asked without an interval. An endpoint that was heard lately is not asked.
func TestAskSilentOf(t *testing.T) {
	h, e := newHost(t, View{Connected: true, Open: true})
	h.s.AskSilentOf(h.all, nil)
	if e.watch.Pressed {
		t.Error("asked though it was heard just now")
	}
	h.now += 3 * second
	h.s.AskSilentOf(h.all[1:], nil)
	if e.watch.Pressed {
		t.Error("asked though it is none of them")
	}
	h.s.AskSilentOf(h.all, nil)
	if h.expire(); len(h.asked) != 1 {
		t.Errorf("asked %d times", len(h.asked))
	}
}
