package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/reliability"
)

// Of a burst of messages that fill a packet each, the first leaves at once, unbatched. Those
// behind it stand in the batch, and are done: they leave in trains, the last of them with the next
// pass. Where others wait for their turn they wait, too.
func TestBurstOfWholePackets(t *testing.T) {
	cfg := smallConfig()
	cfg.SendBuffers, cfg.RecvDepth, cfg.FragmentsMax = 256, 256, 256
	cfg.Rules.Congestion = reliability.CongestionFixed
	l := newLab(t, mem.Config{}, 3, cfg)
	ep, other := l.connect(0, 1), l.connect(0, 2)
	got := 0
	for _, m := range l.mods[1:] {
		mustHandle(t, m, func() { got++ })
	}
	for range 8 {
		send(t, ep, 20_000) // the first credits are few
		l.settle(time.Second)
	}
	warm := got
	size := ep.MaxTiny() + frag.HeaderBytes(frag.KindFrag, 0) + 1 - 8
	if size+8 > ep.MTUBytes() {
		t.Fatalf("%d bytes are no message of one packet, with an MTU of %d", size, ep.MTUBytes())
	}
	const trainMax = 32 // packets in a batch
	c := &l.mods[0].all.Port.Data
	want := func(what string, to *Endpoint, status Status, batch int) {
		t.Helper()
		f, err := to.Prepare(3, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		got, err := to.Send(l.now, f)
		if err != nil || got != status || len(c.Batch) != batch {
			t.Fatalf("%s: %v, %v, %d packets in the batch, want %v and %d", what, got, err, len(c.Batch),
				status, batch)
		}
	}
	want("the first", ep, Done, 0)
	for i := range trainMax - 1 {
		want("behind it", ep, Done, i+1)
	}
	want("the last of a train", ep, Done, 0)
	want("one more", ep, Done, 1)
	if at := l.mods[0].Deadline(); at > l.now {
		t.Errorf("a packet waits in the batch, and the next pass may wait until %d, which is after %d",
			at, l.now)
	}
	l.step(time.Microsecond)
	if len(c.Batch) != 0 {
		t.Errorf("%d packets in the batch after a pass", len(c.Batch))
	}
	l.settle(time.Second)
	want("unbatched again", ep, Done, 0)
	ended := send(t, other, 20*size)
	want("beside one that waits", ep, Queued, 0)
	l.settle(time.Second)
	if got -= warm; got != trainMax+5 || *ended != nil {
		t.Errorf("%d messages came, want %d; the large one: %v", got, trainMax+5, *ended)
	}
}

// What stands in the batch while its owner is away does not measure the path by that: it leaves
// first in the next pass, also in one that finds a message, and its clock runs from then on.
func TestBurstOfWholePacketsStands(t *testing.T) {
	cfg := smallConfig()
	cfg.SendBuffers, cfg.RecvDepth, cfg.FragmentsMax = 256, 256, 256
	l := newLab(t, mem.Config{MTUBytes: 1500}, 2, cfg)
	ep := l.connect(0, 1)
	back := l.accepted(1)
	for _, m := range l.mods {
		mustHandle(t, m, func() {})
	}
	for range 20 {
		send(t, ep, 20_000)
		l.settle(time.Second)
	}
	before := ep.Path()
	for i := range 20 {
		for range 20 {
			if sendOrFail(t, ep, 3, make([]byte, 1000)); queued(ep) > 0 {
				t.Fatal("a message waits, and does not stand in the batch")
			}
		}
		away := 20 * time.Millisecond
		if i%2 == 1 {
			away = 20 * time.Microsecond
			sendOrFail(t, back, 3, nil)
		}
		l.now = l.now.Add(away)
		if _, err := l.mods[0].Progress(l.now); err != nil {
			t.Fatal(err)
		}
		if n := len(l.mods[0].all.Port.Data.Batch); n != 0 {
			t.Errorf("%d packets stand in the batch after a pass, %v after the one before", n, away)
		}
		l.settle(time.Second)
	}
	if after := ep.Path(); after.WindowPackets < before.WindowPackets || !after.SlowStart ||
		after.RoundTrip > time.Millisecond {
		t.Errorf("the path was %+v, is %+v", before.PathState, after.PathState)
	}
}
