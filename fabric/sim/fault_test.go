package sim_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// TestStormsEnd checks that a series of refusals has at most AgainPosts Posts, and that sends
// accepted before the series are sent.
func TestStormsEnd(t *testing.T) {
	nw, a, b := pair(t, sim.Config{Seed: 1, InjectBytes: 1472}, sim.Path{})
	const most = 7
	a.node.SetFaults(sim.NodeFaults{PostAgain: 0.3, AgainPosts: most})
	lengths := make(map[int]int)
	storm, sent, partial := 0, 0, 0
	batch := make([]fabric.Send, 5)
	for i := range batch {
		batch[i] = fabric.Send{To: a.addr(b), Buf: a.free[i], Len: 10}
	}
	for range 5000 {
		n, err := a.ep.Post(batch)
		sent += n
		switch {
		case err == nil && n == len(batch):
			lengths[storm]++
			storm = 0
		case errors.Is(err, fabric.ErrAgain) && n < len(batch):
			// A Post that accepts some sends begins a series, because the previous series may have
			// just ended.
			if n > 0 {
				partial++
				lengths[storm]++
				storm = 0
			}
			storm++
		default:
			t.Fatalf("Post took %d: %v", n, err)
		}
		nw.RunUntil(nw.Now().Add(10 * time.Microsecond))
	}
	if b.received != sent || partial == 0 {
		t.Errorf("%d of %d taken sends arrived, %d Posts were cut short", b.received, sent, partial)
	}
	for n := range most {
		if lengths[n+1] == 0 {
			t.Errorf("no storm of %d Posts: %v", n+1, lengths)
		}
	}
	for n := range lengths {
		if n > 4*most { // several series in a row, each begun by a Post without accepted sends
			t.Errorf("a storm of %d Posts", n)
		}
	}
	a.node.SetFaults(sim.NodeFaults{PostAgain: 1, AgainPosts: 1000})
	if err := a.try(b, []byte("x")); !errors.Is(err, fabric.ErrAgain) {
		t.Errorf("in a storm: %v", err)
	}
	a.node.SetFaults(sim.NodeFaults{})
	if err := a.try(b, []byte("x")); err != nil {
		t.Errorf("after SetFaults ended a storm: %v", err)
	}
}

func TestCompletionErrors(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	a.node.SetFaults(sim.NodeFaults{SendError: 1})
	if err := a.try(b, []byte("injected")); !errors.Is(err, syscall.EIO) {
		t.Errorf("Post of a small send: %v, want EIO", err)
	}
	free := len(a.free)
	a.send(b, make([]byte, 1400))
	nw.RunUntil(nw.Now().Add(time.Millisecond))
	if a.errors != 1 || len(a.free) != free || b.received != 0 {
		t.Errorf("%d completions failed, %d of %d buffers are free, %d datagrams arrived",
			a.errors, len(a.free), free, b.received)
	}
	a.node.SetFaults(sim.NodeFaults{})
	b.node.SetFaults(sim.NodeFaults{RecvError: 1})
	a.send(b, []byte("x"))
	nw.RunUntil(nw.Now().Add(time.Millisecond))
	if b.errors != 1 || b.received != 0 {
		t.Errorf("%d receives failed, %d datagrams arrived", b.errors, b.received)
	}
	b.node.SetFaults(sim.NodeFaults{})
	a.send(b, []byte("x"))
	nw.RunUntil(nw.Now().Add(time.Millisecond))
	if b.errors != 1 || b.received != 1 {
		t.Errorf("afterwards %d receives failed, %d datagrams arrived", b.errors, b.received)
	}
}

// TestLateSends checks that late sends leave within the time, in order, and complete then.
func TestLateSends(t *testing.T) {
	const late = 100 * time.Microsecond
	nw, a, b := pair(t, sim.Config{Seed: 6}, sim.Path{})
	a.node.SetFaults(sim.NodeFaults{LateSends: late})
	var first, last time.Duration
	for round := range 30 {
		a.spent, b.arrived = nil, nil
		start := nw.Now()
		var order []fabric.Buf
		for i := range 20 {
			order = append(order, a.free[len(a.free)-1])
			a.send(b, append([]byte{0, 0, 0, byte(i)}, make([]byte, 1100)...))
		}
		nw.RunUntil(nw.Now().Add(time.Millisecond))
		if len(b.arrived) != 20 || len(a.spent) != 20 {
			t.Fatalf("round %d: %d arrived, %d completed", round, len(b.arrived), len(a.spent))
		}
		for i := range order {
			if number(b.arrived[i].data) != i || a.spent[i] != order[i] {
				t.Fatalf("round %d: not in order", round)
			}
		}
		first = max(first, b.arrived[0].at.Sub(start))
		last = max(last, b.arrived[19].at.Sub(start))
	}
	if first < late/20 || first > late/2 || last < late*8/10 || last > late+time.Microsecond {
		t.Errorf("the first of a batch left up to %v late, the last up to %v; want up to %v",
			first, last, late)
	}
	if v := nw.Violations(); len(v) > 0 {
		t.Error(v)
	}
	settled(t, nw)
}

// TestLateSendsEndWithTheirEndpoint checks that sends that have not left when the endpoint closes
// are never sent.
func TestLateSendsEndWithTheirEndpoint(t *testing.T) {
	for name, end := range map[string]func(*station){
		"endpoint": func(s *station) { s.ep.Close() },
		"domain":   func(s *station) { s.dom.Close() },
		"crash":    func(s *station) { s.node.Crash() },
	} {
		nw, a, b := pair(t, sim.Config{}, sim.Path{})
		a.node.Run(nil)
		a.node.SetFaults(sim.NodeFaults{LateSends: time.Second})
		a.send(b, make([]byte, 1200))
		a.send(b, make([]byte, 1200))
		end(a)
		nw.RunUntil(nw.Now().Add(2 * time.Second))
		if got := nw.Counts()[sim.KindSent]; got != 0 {
			t.Errorf("%s: %d sends left after the end", name, got)
		}
		settled(t, nw)
	}
}

// TestViolations makes each mistake of a user of the fabric, on separate networks.
func TestViolations(t *testing.T) {
	big := make([]byte, 1200)
	for name, tc := range map[string]struct {
		do   func(a, b *station)
		want string // "" for none
	}{
		"nothing wrong": {func(a, b *station) {
			a.send(b, big)
			a.send(b, big)
			a.arena.Bytes(a.free[0])[0]++
		}, ""},
		"reuse after an injected send": {func(a, b *station) {
			a.send(b, []byte("x"))
			a.arena.Bytes(a.free[len(a.free)-1])[0]++
			a.send(b, []byte("x"))
		}, ""},
		"altered": {func(a, b *station) {
			buf := a.free[len(a.free)-1]
			a.send(b, big)
			a.arena.Bytes(buf)[1199]++
		}, "altered"},
		"posted again": {func(a, b *station) {
			s := []fabric.Send{{To: a.addr(b), Buf: a.free[0], Len: 1200}}
			a.ep.Post(s)
			a.ep.Post(s)
		}, "posted again"},
		"twice in a batch": {func(a, b *station) {
			s := fabric.Send{To: a.addr(b), Buf: a.free[0], Len: 1200}
			a.ep.Post([]fabric.Send{s, s})
		}, "posted again"},
		"receive buffer posted as send": {func(a, b *station) {
			a.ep.Post([]fabric.Send{{To: a.addr(b), Buf: 0, Len: 10}})
		}, "still posted"},
		"receive buffer posted twice": {func(a, _ *station) {
			a.ep.Recv([]fabric.Buf{0})
		}, "still posted"},
		"send buffer posted as receive": {func(a, b *station) {
			buf := a.free[len(a.free)-1]
			a.send(b, big)
			a.ep.Recv([]fabric.Buf{buf})
		}, "still posted"},
		"outside the arena": {func(a, b *station) {
			a.ep.Post([]fabric.Send{{To: a.addr(b), Buf: stationBuffers}})
		}, "outside"},
		"receive outside the arena": {func(a, _ *station) {
			a.ep.Recv([]fabric.Buf{stationBuffers})
		}, "outside"},
		"removed address": {func(a, b *station) {
			to := a.addr(b)
			a.dom.Remove(to)
			a.ep.Post([]fabric.Send{{To: to, Buf: a.free[0], Len: 10}})
		}, "removed"},
		"removed after a send": {func(a, b *station) {
			a.send(b, big)
			a.nw.RunUntil(a.nw.Now().Add(time.Second))
			a.dom.Remove(a.addr(b))
		}, ""},
		"another domain's address": {func(a, b *station) {
			a.addr(b)
			a.ep.Post([]fabric.Send{{To: b.addr(a), Buf: a.free[0], Len: 10}})
		}, "unknown"},
		"removed twice": {func(a, b *station) {
			a.dom.Remove(a.addr(b))
			a.dom.Remove(a.addr(b))
		}, "fi_av_remove"},
		"removed under a send": {func(a, b *station) {
			a.send(b, big)
			a.dom.Remove(a.addr(b))
		}, "removed while"},
		"region altered": {func(a, b *station) {
			mem := make([]byte, 1200)
			gather(a, b, mem)
			mem[1199]++
		}, "altered"},
		"region deregistered": {func(a, b *station) {
			a.dom.DeregisterRegion(gather(a, b, make([]byte, 1200)))
		}, "deregistered"},
		"region deregistered twice": {func(a, _ *station) {
			a.dom.DeregisterRegion(1)
		}, "unknown region"},
		"region in order": {func(a, b *station) {
			r := gather(a, b, make([]byte, 1200))
			a.nw.RunUntil(a.nw.Now().Add(time.Second))
			a.dom.DeregisterRegion(r)
		}, ""},
	} {
		for _, late := range []time.Duration{0, 100 * time.Microsecond} {
			nw, a, b := pair(t, sim.Config{}, sim.Path{})
			a.node.SetFaults(sim.NodeFaults{LateSends: late})
			tc.do(a, b)
			nw.RunUntil(nw.Now().Add(time.Second))
			v := nw.Violations()
			if tc.want == "" && len(v) > 0 {
				t.Errorf("%s, late %v: %v", name, late, v)
			}
			if tc.want != "" && (len(v) == 0 || !strings.Contains(v[0].Error(), tc.want)) {
				t.Errorf("%s, late %v: %v, want %q", name, late, v, tc.want)
			}
			settled(t, nw)
		}
	}
}

// gather sends all of a new region.
func gather(a, b *station, mem []byte) fabric.Region {
	a.tb.Helper()
	r, err := a.dom.RegisterRegion(mem)
	if err != nil {
		a.tb.Fatal(err)
	}
	buf := a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	s := fabric.Send{To: a.addr(b), Buf: buf, Len: 8, Region: r, RegionLen: uint32(len(mem))}
	if _, err := a.ep.Post([]fabric.Send{s}); err != nil {
		a.tb.Fatal(err)
	}
	return r
}

func TestViolationsAreBounded(t *testing.T) {
	nw, a, _ := pair(t, sim.Config{}, sim.Path{})
	for range 100 {
		a.ep.Recv([]fabric.Buf{0})
	}
	if n := len(nw.Violations()); n != 16 {
		t.Errorf("%d violations are kept, want 16", n)
	}
}

// TestEarlyReuseIsSeenOnTheWire checks that a late send has the content of the buffer at the time
// when the send leaves.
func TestEarlyReuseIsSeenOnTheWire(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	a.node.SetFaults(sim.NodeFaults{LateSends: time.Hour})
	buf := a.free[len(a.free)-1]
	a.send(b, make([]byte, 1200))
	a.arena.Bytes(buf)[5] = 77
	nw.RunUntil(nw.Now().Add(time.Hour + time.Second))
	if len(b.arrived) != 1 || b.arrived[0].data[5] != 77 {
		t.Error("the late send carries the bytes of its Post")
	}
}

// TestMemoryIsZero checks that the content of a network's memory is not visible in the next
// network.
func TestMemoryIsZero(t *testing.T) {
	memory := new(sim.Memory)
	arenas := make(map[*byte]bool)
	for round := range 3 {
		nw, a, b := pair(t, sim.Config{Memory: memory}, sim.Path{})
		for _, s := range []*station{a, b} {
			for i := range s.arena.Len() {
				for _, x := range s.arena.Bytes(fabric.Buf(i)) {
					if x != 0 {
						t.Fatalf("round %d: buffer %d is not zero", round, i)
					}
				}
			}
		}
		if first := &a.arena.Bytes(0)[0]; round > 0 && !arenas[first] {
			t.Error("the memory is not used again")
		}
		arenas[&a.arena.Bytes(0)[0]], arenas[&b.arena.Bytes(0)[0]] = true, true
		for i := range 200 {
			a.send(b, []byte(strings.Repeat("x", 1+i*7)))
			nw.RunUntil(nw.Now().Add(10 * time.Microsecond))
		}
		b.node.Crash()
		b.open()
		arenas[&b.arena.Bytes(0)[0]] = true
		b.dom.Close()
		b.open()
		if !arenas[&b.arena.Bytes(0)[0]] {
			t.Error("the memory of a closed domain is not used again")
		}
		nw.Close()
		nw.Close()
		if nw.Step() {
			t.Error("a closed network has events")
		}
	}
}

func TestReceiveQueueIsExact(t *testing.T) {
	const queue = 7
	nw, a, b := pair(t, sim.Config{QueueDatagrams: queue}, sim.Path{})
	for _, tc := range []struct{ now, want int }{{0, queue}, {3, 3}, {12, 12}, {0, queue}} {
		b.received = 0
		b.node.SetFaults(sim.NodeFaults{QueueDatagrams: tc.now})
		b.node.Pause(time.Millisecond)
		for range 20 {
			a.send(b, []byte("x"))
		}
		nw.RunUntil(nw.Now().Add(10 * time.Millisecond))
		if b.received != tc.want {
			t.Errorf("with a queue of %d (%d now) %d datagrams arrived, want %d", queue, tc.now,
				b.received, tc.want)
		}
	}
	if got := b.ep.Caps().RecvCapacity; got != queue {
		t.Errorf("RecvCapacity is %d, want %d", got, queue)
	}
}

func TestInject(t *testing.T) {
	nw, _, b := pair(t, sim.Config{}, sim.Path{Cut: true, Loss: 1, Delay: time.Millisecond})
	nw.SetFilter(func(*sim.Datagram) sim.Verdict { return sim.Verdict{Drop: true} })
	data := []byte("forged")
	nw.Inject(sim.Port{Node: 0}, sim.Port{Node: 1}, data)
	data[0] = 'g'
	nw.Inject(sim.Port{Node: 99, Index: -3}, sim.Port{Node: 1}, make([]byte, 3000))
	nw.Inject(sim.Port{Node: 0}, sim.Port{Node: 1, Index: 7}, data)
	nw.Inject(sim.Port{Node: 0}, sim.Port{Node: -1, Index: 0}, nil)
	nw.Inject(sim.Port{Node: 0}, sim.Port{Node: 5, Index: 0}, nil)
	nw.RunUntil(nw.Now().Add(time.Second))
	// The datagram from an unknown node has no path, and therefore no delay.
	if len(b.arrived) != 2 || string(b.arrived[1].data) != "forged" {
		t.Errorf("%d datagrams arrived", len(b.arrived))
	}
	if c := nw.Counts(); c[sim.KindInjected] != 5 || c[sim.KindUnreachable] != 3 {
		t.Errorf("counts %v", c)
	}
	settled(t, nw)
}
