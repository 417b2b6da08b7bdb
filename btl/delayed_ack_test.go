package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/reliability"
)

// caller is a lab in which module 0 asks and module 1 answers, each when a packet is booked, as
// under a Runner.
type caller struct {
	*lab
	ep, back *Endpoint
	answer   func(ep *Endpoint, data []byte) // what module 1 does with a request
	answered int
}

const tagAsk, tagAnswer = 3, 4

func newCaller(tb testing.TB, cfgs ...Config) *caller {
	tb.Helper()
	c := &caller{lab: newLab(tb, mem.Config{MTUBytes: 9000}, 0, smallConfig())}
	for _, cfg := range cfgs {
		c.add(cfg, "")
	}
	for _, m := range c.mods {
		m.rx.BookFirst(true)
	}
	c.answer = func(ep *Endpoint, data []byte) {
		if err := ep.SendImmediate(ep.Now(), tagAnswer, data); err != nil {
			tb.Error(err)
		}
	}
	asked := func(ep *Endpoint, _ Tag, data []byte) { c.answer(ep, data) }
	answered := func(*Endpoint, Tag, []byte) { c.answered++ }
	if c.mods[1].Handle(tagAsk, asked) != nil || c.mods[0].Handle(tagAnswer, answered) != nil {
		tb.Fatal("no handlers")
	}
	c.ep, c.back = c.pair()
	return c
}

// call asks once, and lets some time go by after the answer.
func (c *caller) call(rest time.Duration) {
	c.tb.Helper()
	want := c.answered + 1
	if err := c.ep.SendImmediate(c.now, tagAsk, make([]byte, 8)); err != nil {
		c.tb.Fatal(err)
	}
	c.until("answered", 20*time.Microsecond, time.Second, func() bool { return c.answered >= want })
	for _, m := range c.mods {
		m.all.Acks.AcknowledgeAll() // as before a sleep
	}
	for end := c.now.Add(rest); c.now < end; {
		c.step(100 * time.Microsecond)
	}
}

// warm has both sides measure the path, and returns how many ACKs the caller has sent by then, and
// how many lone answers the other one.
func (c *caller) warm() (acks, lone uint64) {
	c.tb.Helper()
	for range 3 {
		c.call(time.Millisecond)
	}
	return c.counts()
}

func (c *caller) counts() (acks, lone uint64) {
	return counter(c.mods[0], CntSentAck), counter(c.mods[1], CntLoneAnswers)
}

func (c *caller) wantCounts(what string, acks, lone uint64) {
	c.tb.Helper()
	if gotAcks, gotLone := c.counts(); gotAcks != acks || gotLone != lone {
		c.tb.Errorf("%s: %d ACKs, %d lone answers; want %d, %d", what, gotAcks, gotLone, acks, lone)
	}
	for i, m := range c.mods {
		for _, n := range []Counter{CntRetransmitProbe, CntRetransmitTimeout, CntBelowWindow} {
			if got := counter(m, n); got != 0 {
				c.tb.Errorf("%s: module %d: %v is %d", what, i, n, got)
			}
		}
	}
}

// Who asks again and again sends no ACKs but those on its requests, and the last one after a while;
// no packet comes twice.
func TestLoneAnswer(t *testing.T) {
	c := newCaller(t, smallConfig(), smallConfig())
	acks, lone := c.warm()
	for range 20 {
		c.call(20 * time.Millisecond)
		if flying(c.back) != 1 {
			t.Fatal("the latest answer is acknowledged already")
		}
	}
	c.wantCounts("calls", acks, lone+20)
	c.step(reliability.LoneAckDelay)
	c.until("acknowledged", 20*time.Microsecond, time.Millisecond, func() bool {
		return flying(c.back) == 0
	})
	c.wantCounts("the last one", acks+1, lone+20)
	for range 5 {
		c.call(2 * reliability.LoneAckDelay)
	}
	c.wantCounts("calls far apart", acks+6, lone+20)
}

// An answer is not lone if somebody waits for its ACK, if more follows it, if it is the end, or
// if buffers are few; nor is it one to a peer, or of a side, that knows of none.
func TestNoLoneAnswer(t *testing.T) {
	send := func(t *testing.T, ep *Endpoint, signal bool) {
		f, err := ep.Alloc(tagAnswer, 8)
		if err != nil {
			t.Fatal(err)
		}
		f.Signal = signal
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
	}
	usnic, hasty := smallConfig(), smallConfig()
	usnic.Profile = "usnic"
	hasty.PeerTimeout = 4 * reliability.LoneAckDelay
	for _, tc := range []struct {
		name   string
		cfgs   [2]Config
		lone   uint64
		answer func(ep *Endpoint)
	}{
		{name: "lone", lone: 1, answer: func(ep *Endpoint) { send(t, ep, false) }},
		{name: "its end is told", answer: func(ep *Endpoint) { send(t, ep, true) }},
		{name: "a flush waits", answer: func(ep *Endpoint) {
			ep.Flush(ep.Now(), nil)
			send(t, ep, false)
		}, lone: 1}, // with nothing in flight it is over at once
		{name: "flushed", answer: func(ep *Endpoint) {
			send(t, ep, true)
			ep.Flush(ep.Now(), nil)
		}},
		{name: "two", answer: func(ep *Endpoint) {
			send(t, ep, false)
			send(t, ep, false)
		}, lone: 1}, // which are acknowledged together, and soon
		{name: "closing", answer: func(ep *Endpoint) {
			send(t, ep, false)
			ep.Close(ep.Now())
		}, lone: 1},
		{name: "few buffers", answer: func(ep *Endpoint) {
			m := ep.mod()
			all := m.all.Buffers.FreeSegs
			m.all.Buffers.FreeSegs = all[:m.cfg.SendBuffers/2-1]
			send(t, ep, false)
			m.all.Buffers.FreeSegs = append(m.all.Buffers.FreeSegs, all[m.cfg.SendBuffers/2-1:]...)
		}},
		{
			name: "usnic asks", cfgs: [2]Config{usnic, smallConfig()},
			answer: func(ep *Endpoint) { send(t, ep, false) },
		},
		{
			name: "usnic answers", cfgs: [2]Config{smallConfig(), usnic},
			answer: func(ep *Endpoint) { send(t, ep, false) },
		},
		{
			name: "peers that are given up soon", cfgs: [2]Config{smallConfig(), hasty},
			answer: func(ep *Endpoint) { send(t, ep, false) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range tc.cfgs {
				if tc.cfgs[i].SendBuffers == 0 {
					tc.cfgs[i] = smallConfig()
				}
			}
			c := newCaller(t, tc.cfgs[0], tc.cfgs[1])
			_, lone := c.warm()
			c.answer = func(ep *Endpoint, _ []byte) { tc.answer(ep) }
			c.call(time.Millisecond)
			if _, got := c.counts(); got != lone+tc.lone {
				t.Errorf("%d lone answers, want %d", got-lone, tc.lone)
			}
			waits := tc.name == "lone" || tc.name == "a flush waits"
			if left := flying(c.back); (left == 1) != waits {
				t.Errorf("%d packets are not acknowledged after a while", left)
			}
		})
	}
}

// The request that brings the ACK of a lone answer is none itself, though it is all that is in
// flight: else neither side would notice that it is lost.
func TestRequestIsNoLoneAnswer(t *testing.T) {
	c := newCaller(t, smallConfig(), smallConfig())
	c.warm()
	for range 10 {
		c.call(time.Millisecond)
	}
	if n := counter(c.mods[0], CntLoneAnswers); n != 0 {
		t.Errorf("%d requests were lone answers", n)
	}
	c.net.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Drop })
	sent := c.now
	if err := c.ep.SendImmediate(c.now, tagAsk, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	c.until("sent again", 20*time.Microsecond, 5*time.Millisecond, func() bool {
		return counter(c.mods[0], CntRetransmitProbe) == 1
	})
	if took := c.now.Sub(sent); took > 2*time.Millisecond {
		t.Errorf("a request that is lost comes again after %v", took)
	}
}

// Whoever has something in flight does not hold the ACK of a lone answer back: its sender will be
// patient no longer when that comes.
func TestLoneAnswerBesideOthers(t *testing.T) {
	c := newCaller(t, smallConfig(), smallConfig())
	acks, lone := c.warm()
	send := func() {
		t.Helper()
		if err := c.ep.SendImmediate(c.now, tagAsk, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	send()
	c.now = c.now.Add(20 * time.Microsecond)
	if _, err := c.mods[1].Progress(c.now); err != nil { // which answers
		t.Fatal(err)
	}
	c.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if len(pkt) == frag.FragHeaderBytes+8 {
			return mem.Drop
		}
		return mem.Deliver
	})
	c.now = c.now.Add(20 * time.Microsecond)
	c.mods[0].all.Tick(c.now)
	c.mods[0].all.Clock.BeginPass(false) // another pass has begun, which has read nothing yet
	send()
	for range 10 {
		c.step(10 * time.Microsecond)
	}
	if n := flying(c.ep); n != 1 {
		t.Fatalf("%d packets are in flight", n)
	}
	c.wantCounts("beside another request", acks+1, lone+1)
}

// A packet that may be acknowledged later is none where that was not agreed, whatever way it takes.
func TestLoneAnswerNotAgreed(t *testing.T) {
	for _, booksFirst := range []bool{false, true} {
		c := newCaller(t, smallConfig(), smallConfig())
		c.warm()
		m := c.mods[0]
		c.ep.c.ID.MayWait = false
		m.rx.BookFirst(booksFirst)
		before := c.answered
		if err := c.ep.SendImmediate(c.now, tagAsk, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		c.until("dropped", 20*time.Microsecond, time.Second, func() bool {
			return counter(m, CntDropMalformed) > 0
		})
		if c.answered != before {
			t.Errorf("books first: %v: and delivered", booksFirst)
		}
	}
}

// A lone answer that is lost comes again with the copy of the request, and then is no lone answer:
// its ACK does not wait.
func TestLoneAnswerLost(t *testing.T) {
	c := newCaller(t, smallConfig(), smallConfig())
	c.warm()
	lost, again := 0, 0
	c.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err != nil || h.Kind != frag.KindFrag || h.Tag != tagAnswer {
			return mem.Deliver
		}
		if h.Flags&frag.FlagLater != 0 {
			lost++
			return mem.Drop
		}
		again++
		return mem.Deliver
	})
	sent := c.now
	c.call(0)
	if took := c.now.Sub(sent); lost != 1 || again != 1 || took > 2*time.Millisecond {
		t.Errorf("%d lone answers lost, %d sent again, answered after %v", lost, again, took)
	}
	for range 20 {
		c.step(20 * time.Microsecond)
	}
	if n := flying(c.back); n != 0 {
		t.Error("the ACK of an answer that was sent again is held back")
	}
	if n := counter(c.mods[1], CntRetransmitLost); n != 1 {
		t.Errorf("%d packets were taken for lost", n)
	}
}

// Calls and their lone answers allocate nothing.
func TestLoneAnswerAllocatesNothing(t *testing.T) {
	b := newBench(t, mem.Config{}, 2, Config{})
	b.mods[0].rx.BookFirst(true)
	b.mods[1].rx.BookFirst(true)
	answered := 0
	mustHandleTag(t, b.mods[0], tagAnswer, func(*Endpoint, Tag, []byte) { answered++ })
	mustHandleTag(t, b.mods[1], tagAsk, func(ep *Endpoint, _ Tag, data []byte) {
		_ = ep.SendImmediate(ep.Now(), tagAnswer, data)
	})
	ep := b.connect(0, 1)
	request := make([]byte, 8)
	round := func() {
		want := answered + 1
		_ = ep.SendImmediate(b.now, tagAsk, request)
		for answered < want {
			b.now = b.now.Add(20 * time.Microsecond)
			for _, m := range b.mods {
				_, _ = m.Progress(b.now)
			}
		}
	}
	for range 100 {
		round()
	}
	b.until("a measurement", 100*time.Microsecond, time.Second, func() bool {
		return inFlight(b.mods[1]) == 0
	})
	round()
	before := counter(b.mods[1], CntLoneAnswers)
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
	if n := counter(b.mods[1], CntLoneAnswers) - before; n < 100 {
		t.Errorf("%d lone answers", n)
	}
}

// What is sent behind an answer does not wait for its ACK where the peer grants no more than that.
func TestBehindLoneAnswer(t *testing.T) {
	c := newCaller(t, smallConfig(), smallConfig())
	c.answer = func(ep *Endpoint, _ []byte) {
		sendOrFail(t, ep, tagAnswer, make([]byte, frag.CreditBytesUnit))
	}
	c.warm()
	_, lone := c.counts()
	c.net.SetFilter(func(_, to, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil &&
			string(to) == string(nameOf(c.mods[1]).Command) &&
			h.Kind == frag.KindFrag && h.Flags&frag.FlagAck != 0 {
			frag.SetAck(pkt, h.Ack, h.Credit, 1, h.Flags&frag.FlagDup != 0)
		}
		return mem.Deliver
	})
	c.call(time.Millisecond)
	if _, got := c.counts(); got != lone {
		t.Error("an answer is a lone one behind which nothing may be sent")
	}
	sent, before := c.now, c.answered
	sendOrFail(t, c.back, tagAnswer, make([]byte, 8))
	c.until("delivered", 20*time.Microsecond, time.Second, func() bool { return c.answered > before })
	if took := c.now.Sub(sent); took > time.Millisecond {
		t.Errorf("what was sent behind an answer came %v later", took)
	}
}
