package stranger

import (
	"context"
	"testing"
	"time"

	"gobtl/btl"
)

// askOften has the stranger ask for so many echoes, one behind the other, each a while after the
// answer to the one before.
func (h *host) askOften(t *testing.T, c *conn, n int, gap time.Duration) {
	t.Helper()
	answered, asked := 0, 0
	h.do(func() { h.handlers[tagEcho] = func(*conn, []byte) { answered++ } })
	for range n {
		asked++
		h.do(func() { c.send(tagEcho, text(asked, 8)) })
		eventually(t, "an answer", func() (ok bool) {
			h.do(func() { ok = answered >= asked })
			return ok
		})
		time.Sleep(gap)
	}
}

// answerSoon answers when the request is booked, so that the acknowledgement of that goes along.
func answerSoon(c *conn, b []byte) {
	c.h.late = append(c.h.late, parcel{c.h.now, func() { c.send(tagKeep, b) }})
}

// TestLoneAnswers has each side answer the other one, without losses: the acknowledgements of
// answers ride on requests, if both sides know of it.
func TestLoneAnswers(t *testing.T) {
	for _, features := range []uint64{featSack | featAsk | featLater, featSack | featAsk} {
		r := realSide(t, btl.Config{})
		h := stranger(t, options{features: features, ackAfter: 5 * time.Millisecond})
		c := h.to(t, r)
		h.greeted(t, c)
		knows := features&featLater != 0
		came := 0
		for asked := 0; asked < 40 || knows && came == 0 && asked < 4000; asked += 40 {
			h.askOften(t, c, 40, 5*time.Millisecond)
			h.do(func() { came = c.lone.came })
		}
		if knows != (came > 0) {
			t.Errorf("features %x: %d lone answers", features, came)
		}
		h.do(func() { h.handlers[tagEcho] = answerSoon })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		enough := func(n int) (enough bool) {
			h.do(func() { enough = n > 43 && !knows || c.lone.sent > 3 || n > 4000 })
			return enough
		}
		r.askUntil(t, enough)
		h.do(func() {
			if knows != (c.lone.sent > 0) {
				t.Errorf("features %x: the stranger has sent %d lone answers", features, c.lone.sent)
			}
		})
		s := r.run.Stats()
		t.Logf("features %x: lone answers %d, %d of the stranger; ACKs alone %d", features,
			s.Get(btl.CntLoneAnswers), c.lone.sent, s.Get(btl.CntSentAck))
		check(t, r.run.Flush(ctx, r.endpoint()))
	}
}

// TestLoneAnswersLost has lone answers lost both ways: those of the real side come again with the
// copy of the request, for nothing else brings them within the time that the test takes.
func TestLoneAnswersLost(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featAsk | featLater, ackAfter: 5 * time.Millisecond})
	c := h.to(t, r)
	h.greeted(t, c)
	h.askOften(t, c, 10, 2*time.Millisecond)
	lost := 0
	h.do(func() {
		h.see = func(_ *datagram, p *packet) bool {
			if p.flags&fLater != 0 {
				lost++
				return false
			}
			return true
		}
	})
	h.askOften(t, c, 10, 2*time.Millisecond)
	h.do(func() {
		if h.see = nil; lost == 0 {
			t.Error("no lone answer was lost")
		}
		h.pass = func(out bool, d *datagram) bool { return !out || d.b[2]&fLater == 0 }
		h.handlers[tagEcho] = answerSoon
	})
	r.askUntil(t, func(n int) (enough bool) {
		if n == 2000 {
			t.Fatal("no lone answer of the stranger was lost, and sent again for a copy")
		}
		h.do(func() { enough = c.lone.missed > 0 })
		return enough
	})
}

// askUntil has the real side ask for something, one time behind the other, until it is enough.
func (r *module) askUntil(t *testing.T, enough func(n int) bool) {
	t.Helper()
	for i := 0; !enough(i); i++ {
		check(t, r.run.SendBuffered(context.Background(), r.endpoint(), tagEcho, text(i, 8)))
		eventually(t, "the stranger's answer", func() bool { return r.times(string(text(i, 8))) == 1 })
		time.Sleep(time.Millisecond)
	}
}
