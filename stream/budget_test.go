//go:build unix

package stream

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// notify sends a notice, and returns false if there was no room.
func (r *rogue) notify(n notice) bool {
	f, err := r.ep.Alloc(tagNotice, noticeBytes)
	if err != nil {
		return false
	}
	n.put(f.Bytes())
	if _, err := r.ep.Send(r.w.nw.Now(), f); err != nil {
		_ = r.ep.Free(f)
		return false
	}
	return true
}

// every calls a function in the passes of the rogue, and at most once in the given time.
func (r *rogue) every(d time.Duration, fn func()) {
	next := r.w.nw.Now()
	r.pass = func() {
		if now := r.w.nw.Now(); now >= next {
			next = now.Add(d)
			fn()
		}
	}
	r.node.Kick()
}

// TestWorkOfNotices: a sender that puts nothing, and sends notices all the time, makes its receiver
// open a bounded number of regions in each pass and in each second.
func TestWorkOfNotices(t *testing.T) {
	for _, kind := range []uint64{noticeSkip, noticePlaced} {
		w := newSimWorld(t, 44, 1)
		g := Geometry{64, 8192, 1}
		ring, err := NewRing(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		rx, err := w.rx[0].newReceiver(ring, Config{Unmonitored: true}, 77)
		if err != nil {
			t.Fatal(err)
		}
		bad := w.rogue(t, "bad")
		bad.connect(rx.Identity().Name)
		bad.say(bad.ep, bad.hello(77, obj{"messages": "0"}))
		w.until(time.Minute, func() bool { _, ok := bad.got(letterWelcome); return ok })
		bad.say(bad.ep, obj{"kind": letterStart, "key": text(bad.key), "start": obj{"sent": "0"}})
		w.until(time.Minute, func() bool { return rx.state == stateRunning })
		notices, opened, most := 0, rx.asm.opened, uint64(0)
		bad.every(time.Millisecond, func() {
			to := rx.credit
			if kind == noticeSkip {
				to += uint64(g.Messages())
			}
			if bad.notify(notice{kind, bad.key, to}) {
				notices++
			}
		})
		w.rx[0].after = func() {
			most, opened = max(most, rx.asm.opened-opened), rx.asm.opened
		}
		const seconds = 3
		w.nw.RunUntil(w.nw.Now().Add(seconds * time.Second))
		if notices < 500*seconds || rx.Err() != nil {
			t.Fatalf("%d notices of kind %d, %v", notices, kind, rx.Err())
		}
		if rx.track().edge < uint64(g.Messages()) {
			t.Errorf("the notices of kind %d have no effect", kind)
		}
		bound := rx.asm.budgetMax/rx.asm.cost + seconds*1e6*workPerMicrosecond/rx.asm.cost
		if opened > bound+bound/10 {
			t.Errorf("%d notices of kind %d have opened %d regions, at most %d may be opened", notices,
				kind, opened, bound)
		}
		if per := uint64(grantBytes / 64); most > per {
			t.Errorf("one pass has opened %d regions, at most %d may be opened", most, per)
		}
	}
}

func (r *Receiver) track() *tracker { return &r.asm.track }

// TestOpenRegions: one notice closes at most openMax regions, however large the ring is.
func TestOpenRegions(t *testing.T) {
	a := newFiller(newRing(t, 1, 4*openMax, 1), 0)
	for range 4 * openMax / a.perPass {
		a.grant()
		a.pay(0, 0)
	}
	if n := a.hi - a.lo; n != openMax || a.more {
		t.Errorf("%d regions are open, more: %v", n, a.more)
	}
	a.skip(1 << 40)
	a.grant()
	if a.lo != 1<<40 || a.hi-a.lo != a.perPass || !a.more {
		t.Errorf("after a skip: regions %d to %d, more: %v", a.lo, a.hi, a.more)
	}
}

// TestPutsPay: the puts of a sender pay for all regions that they fill, in rings of any shape, and
// time pays for a sender that has skipped what it could.
func TestPutsPay(t *testing.T) {
	for _, g := range []Geometry{{1, 100, 1}, {64, 300, 3}, {8192, 5, 100}, {1 << 20, 2, 1}} {
		a := newFiller(newRing(t, g.MessageBytes, g.Regions, g.RegionMessages), 0)
		a.overwrite = true
		written, size := uint64(0), uint64(g.MessageBytes)
		for range 1000 {
			to := a.grant()
			if to != written/size+uint64(g.Messages()) {
				t.Fatalf("%+v: credit %d after %d bytes", g, to, written)
			}
			written = to * size
			a.fill(to)
			a.pay(0, written)
		}
		for a.budget >= a.cost {
			a.skip(a.grant())
		}
		if a.grant(); !a.more || a.grantAt(1) <= 1 {
			t.Errorf("%+v: the receiver does not look again", g)
		}
		regions := uint64(0)
		for now := mono.Time(0); regions < 5; now = a.grantAt(now) {
			if now > mono.Time(time.Second) {
				t.Fatalf("%+v: time has paid for %d regions", g, regions)
			}
			before := a.opened
			a.pay(now, written)
			a.skip(a.grant())
			regions += a.opened - before
		}
	}
}

// TestPutsAndSkips: a sender that puts runs of messages, and drops more messages than it puts,
// waits for at most 1 ms after each gap, whether the regions are large or small. The gaps begin and
// end at the borders of regions and elsewhere.
func TestPutsAndSkips(t *testing.T) {
	for _, c := range []struct {
		g        Geometry
		run, gap uint64
	}{
		{Geometry{64 << 20, 4, 1}, 3, 11},
		{Geometry{64 << 20, 4, 1}, 1, 1000},
		{Geometry{1 << 20, 64, 1}, 10, 90},
		{Geometry{8192, 5, 100}, 50, 770},
		{Geometry{8192, 5, 100}, 130, 1234},
		{Geometry{64, 300, 3}, 40, 5000},
		{Geometry{1, 100, 1}, 40, 5000},
	} {
		a := newFiller(newRing(t, c.g.MessageBytes, c.g.Regions, c.g.RegionMessages), 0)
		a.overwrite = true
		size, at, written := uint64(c.g.MessageBytes), uint64(0), uint64(0)
		now, longest := mono.Time(0), time.Duration(0)
		for range 1000 {
			waited := time.Duration(0)
			for end := at + c.run; at < end; {
				to := min(a.grant(), end)
				if to == at {
					next := a.grantAt(now)
					waited += next.Sub(now)
					now = next
				} else {
					written += (to - at) * size
					now = now.Add(time.Duration((to-at)*size/10 + 1)) // puts of 10 GB/s
					a.fill(to)
					at = to
				}
				a.pay(now, written)
			}
			longest = max(longest, waited)
			a.grant()
			at += c.gap
			a.skip(at)
		}
		if longest > time.Millisecond {
			t.Errorf("%+v: after a gap, the sender waits for up to %v", c, longest)
		}
	}
}

// TestClearsArePaid: a sender that puts one message of each region, and drops the others, makes its
// receiver fill a bounded number of bytes with zeros.
func TestClearsArePaid(t *testing.T) {
	g := Geometry{1024, 8, 1024}
	a := newFiller(newRing(t, g.MessageBytes, g.Regions, g.RegionMessages), 0)
	a.overwrite = true
	regions, written, at := uint64(0), uint64(0), uint64(0)
	const steps = 1000
	for i := range steps { // in 1 s
		a.pay(mono.Time(i)*mono.Time(time.Millisecond), written)
		if a.grant() <= at {
			continue
		}
		written += uint64(g.MessageBytes)
		a.fill(at + 1)
		at += uint64(g.RegionMessages)
		a.skip(at)
		regions++
	}
	bytes := uint64(g.RegionBytes())
	most := (a.budgetMax + written*a.perByte + steps*1000*workPerMicrosecond) / bytes
	if regions > most+uint64(g.Regions) || regions < most/2 {
		t.Errorf("%d regions are filled with zeros, at most %d may be", regions, most)
	}
}
