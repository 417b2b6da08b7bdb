package stream

import (
	"errors"
	"testing"
	"time"
)

// sayForEver lets the module of a host go on while its streams stand still. Each 100 ms, the host
// sends a notice of each of the given kinds to its sender, with a number that grows.
func (w *simWorld) sayForEver(h *simHost, r *Receiver, kinds ...uint64) {
	h.ctl.Run(h.m)
	h.data.Run(nil)
	number := max(r.fresh, r.credit) + 1<<20
	var say func()
	say = func() {
		h.Engine.now = w.nw.Now()
		for _, kind := range kinds {
			number++
			h.sendNotice(r.ep, notice{kind, r.key, number})
		}
		h.ctl.Kick()
		w.nw.After(noticeEvery, say)
	}
	say()
}

// TestNoticesOfReliableReceiver: a receiver of a reliable stream that never frees a region, or that
// sends no report after the end, cannot hold its sender by notices. The sender goes on without it
// in the documented time, and the other receiver gets everything.
func TestNoticesOfReliableReceiver(t *testing.T) {
	const total = 20_000
	cfg := Config{
		Messages: total, BitsPerSecond: 64 * 8 * 5000, Receivers: 2, Timeout: 2 * time.Second,
	}
	for _, c := range []struct {
		name  string
		atEnd bool
		kinds []uint64
		most  time.Duration
		want  error
	}{
		{"stalled", false, []uint64{noticeTaken}, cfg.Timeout + time.Second, ErrStalled},
		{
			"no report", true,
			[]uint64{noticeTaken, noticeCredit},
			cfg.Timeout + time.Second + 200*time.Millisecond + time.Second, ErrTimeout,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSimWorld(t, 28, 2)
			good := w.open(cfg, Geometry{64, 4, 8}, 0)
			bad := good.join(w.rx[1], cfg, 78)
			s := good.tx
			w.until(time.Minute, func() bool {
				return s.state == stateEnding || !c.atEnd && bad.rx.stats.Regions > 20
			})
			w.sayForEver(w.rx[1], bad.rx, c.kinds...)
			since := w.nw.Now()
			w.until(time.Hour, func() bool { return s.stats.PeersLost > 0 })
			if took := w.nw.Now().Sub(since); took > c.most {
				t.Errorf("the sender waits for %v, want at most %v", took, c.most)
			}
			w.until(time.Minute, good.ended)
			if !errors.Is(s.err, c.want) || good.rx.err != nil || good.got != total || good.wrong > 0 ||
				len(s.Reports()) != 1 {
				t.Errorf("sender %v; the other receiver: %v, %d messages", s.err, good.rx.err, good.got)
			}
		})
	}
}

// Credit for messages that the sender has dropped permits no put, and does not keep a sender
// waiting.
func TestCreditForDropped(t *testing.T) {
	const next = 1000
	k := &link{s: &Sender{e: &Engine{now: 5}, state: stateRunning}, next: next, credit: 10}
	for _, c := range []struct{ credit, heard uint64 }{{11, 0}, {next, 0}, {next + 1, 5}} {
		k.notice(notice{noticeCredit, 0, c.credit})
		if k.credit != c.credit || uint64(k.heard) != c.heard {
			t.Errorf("credit %d for message %d: credit %d, heard at %d", c.credit, k.next, k.credit, k.heard)
		}
	}
}

// A receiver that has not become ready cannot add a report to those of the sender.
func TestReportBeforeReady(t *testing.T) {
	w := newSimWorld(t, 65, 1)
	cfg := Config{Messages: 20_000, BitsPerSecond: 64 * 8 * 5000, Timeout: time.Second}
	s := w.open(cfg, Geometry{64, 4, 8}, 0)
	w.until(time.Minute, func() bool { return s.tx.state == stateRunning })
	k := s.tx.links[0]
	s.tx.state = stateEnding
	for _, c := range []struct {
		state   linkState
		reports int
	}{{linkGreeted, 0}, {linkStarted, 0}, {linkReady, 1}} {
		k.state = c.state
		k.letter(&letter{Kind: letterReport, Report: &Stats{Received: 1 << 60}})
		if n := len(s.tx.Reports()); n != c.reports {
			t.Errorf("in state %d: %d reports", c.state, n)
		}
	}
}
