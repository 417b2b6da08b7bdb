//go:build linux

package agent

import (
	"slices"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/vnic"
	"gobtl/vnic/offload"
)

// sendBuffer is an endpoint with a send buffer of 1 MiB, which takes all packets while it is not
// full.
type sendBuffer struct {
	fabric.Endpoint
	used int
	sent []fabric.Addr
	// bytes is the sum of the lengths of all packets.
	bytes int
}

func (b *sendBuffer) Backlog() (usedBytes, sizeBytes int) { return b.used, 1 << 20 }

func (b *sendBuffer) Post(sends []fabric.Send) (int, error) {
	if b.used == 1<<20 {
		return 0, fabric.ErrAgain
	}
	for i := range sends {
		b.sent = append(b.sent, sends[i].To)
		b.bytes += int(sends[i].Len)
	}
	return len(sends), nil
}

// crowd is an agent whose first sender sends to the hosts 2, 3 and 4 through a sendBuffer. The host
// with LID n has the address n.
func crowd(t *testing.T) (*Agent, *sendBuffer, *outlet) {
	t.Helper()
	a := newAgent(t)
	s := a.senders[0]
	b := &sendBuffer{Endpoint: s.link.ep}
	s.link.ep, s.link.seen, s.quiet.backlog = b, a.peers.Load(), b
	for lid := range fabric.Addr(5) {
		s.byLID[uint32(lid)] = []fabric.Addr{lid}
	}
	tables := &vnic.Tables{
		Info: vnic.VportInfo{
			VESW: 5, OperState: vnic.StateForwarding, EthMTU: 1500, EncapSLID: 1,
			McastDLID: vnic.GroupLID(5),
		},
		Options: vnic.Options{}.WithDefaults(), Members: []uint32{1, 2, 3, 4},
	}
	p := &port{num: 1}
	o := &outlet{port: p, mtuBytes: 1472, out: vnic.NewEgress(nil, nil, nil, 1)}
	o.out.SetTables(tables)
	s.outlets = []*outlet{o}
	return a, b, o
}

// toAll sends a frame to all members, and returns the addresses to which packets have gone.
func (b *sendBuffer) toAll(t *testing.T, a *Agent, o *outlet) []fabric.Addr {
	t.Helper()
	b.sent = nil
	s := a.senders[0]
	s.inject = []injected{{o.port, probeFrame(vnic.Broadcast, 0, probeAsks, 1), false}}
	if _, err := s.work(); err != nil {
		t.Fatal(err)
	}
	return b.sent
}

// TestSilentMembers: hosts that answer no probes fill a quarter of the send buffer and no more. The
// frames to other hosts have the rest. One answer makes a host like the others.
func TestSilentMembers(t *testing.T) {
	a, b, o := crowd(t)
	for lid := uint32(2); lid <= 4; lid++ {
		a.paths[lid] = narrowPath(1472, 1472)
	}
	a.paths[3] = silentPath()
	a.tellSilent()
	all, some := []fabric.Addr{2, 3, 4}, []fabric.Addr{2, 4}
	for _, c := range []struct {
		used int
		want []fabric.Addr
	}{{0, all}, {250 << 10, all}, {256 << 10, some}, {900 << 10, some}, {1 << 10, all}} {
		b.used = c.used
		if got := b.toAll(t, a, o); !slices.Equal(got, c.want) {
			t.Errorf("%d bytes are in use: the frame goes to %v, want %v", c.used, got, c.want)
		}
	}
	if n := o.out.Counts[vnic.TxFIFO]; n != 2 {
		t.Errorf("%d copies are counted as dropped, want 2", n)
	}
	b.used = 250 << 10 // room for some packets
	s := a.senders[0]
	s.quiet.known, b.sent = false, nil
	for range 10 {
		s.send(o, probeFrame(vnic.Broadcast, 0, probeAsks, 1), offload.Header{}, false)
	}
	s.post()
	if n := count(b.sent, 3); n == 0 || n > 6 || count(b.sent, 2) != 10 {
		t.Errorf("between two looks %d packets go to the silent host, %d to another", n,
			count(b.sent, 2))
	}
	now := mono.Time(1)
	a.measure(now)
	now = a.paths[3].Due()
	small := a.paths[3].Probes(now, nil)[0]
	a.sizeProbed(sizeProbe{3, vnic.SizeTells, small.Number})
	a.measure(now)
	b.used = 900 << 10
	if got := b.toAll(t, a, o); !slices.Equal(got, all) {
		t.Errorf("after an answer the frame goes to %v, want %v", got, all)
	}
}

func count(all []fabric.Addr, one fabric.Addr) (n int) {
	for _, a := range all {
		if a == one {
			n++
		}
	}
	return n
}

// TestRareProbes: while silent hosts have used their part of the send buffer, all of them together
// get some probes in a second, so that a host that comes back is found. Other hosts get all. The
// answers to a silent host that asks without end take no place of probes, nor of other hosts.
func TestRareProbes(t *testing.T) {
	a, b, _ := crowd(t)
	a.paths[3], a.paths[4] = silentPath(), silentPath()
	a.tellSilent()
	b.used = 900 << 10
	s := a.senders[0]
	now := mono.Time(time.Hour)
	for second := range 3 {
		b.sent = nil
		for range 1000 {
			s.probeSize(now, 3, vnic.SizeAsks, vnic.SizeProbe{Bytes: vnic.SizeProbeBytes})
		}
		s.probeSize(now, 2, vnic.SizeAsks, vnic.SizeProbe{Bytes: vnic.SizeProbeBytes})
		if n := count(b.sent, 3); n != rareProbes || count(b.sent, 2) != 1 {
			t.Errorf("second %d: %d probes to silent hosts, %d of 1 to another", second, n,
				count(b.sent, 2))
		}
		b.sent = nil
		for lid := uint32(3); lid <= 4; lid++ {
			for range 512 {
				s.probeSize(now, lid, vnic.SizeTells, vnic.SizeProbe{Bytes: vnic.SizeProbeBytes})
			}
			if n := count(b.sent, fabric.Addr(lid)); n != rareShare {
				t.Errorf("second %d: %d answers to silent host %d", second, n, lid)
			}
		}
		now = now.Add(time.Second)
	}
}

// TestFullQueueHoldsNoThread: a full send queue does not make a thread wait while it has the
// sender's lock. The batch waits, no further frame is read, and after some tries the batch is
// dropped and counted.
func TestFullQueueHoldsNoThread(t *testing.T) {
	a, b, o := crowd(t)
	s := a.senders[0]
	free := len(s.free)
	b.used = 1 << 20
	b.toAll(t, a, o)
	if len(s.batch) != 3 || !s.full || s.tries != 1 {
		t.Fatalf("%d packets wait, full %v, after %d tries", len(s.batch), s.full, s.tries)
	}
	if lids := a.stuck.Load(); lids == nil || len(*lids) != 3 || a.doubted.Load() {
		t.Errorf("the control thread looks for the hosts %v", lids)
	}
	q := &fakeQueue{}
	o.queue = q
	q.reads = []error{nil}
	if n, full, _, err := s.pass(); n != 0 || !full || err != nil || len(q.reads) != 1 {
		t.Errorf("a pass with a full queue: %d frames, full %v, error %v", n, full, err)
	}
	s.turn()
	if s.tries != 2 {
		t.Errorf("%d tries, want those of the sender's thread alone", s.tries)
	}
	b.used = 0
	all := []fabric.Addr{2, 3, 4}
	if _, _, _, err := s.pass(); err != nil || s.full || !slices.Equal(b.sent, all) {
		t.Fatalf("the batch goes to %v", b.sent)
	}
	b.used = 1 << 20
	b.toAll(t, a, o)
	for range postTries {
		if !s.full {
			t.Fatalf("dropped after %d tries", s.tries)
		}
		_, _, _, _ = s.pass()
		if o.out.Counts[vnic.TxFIFO] > 0 {
			break
		}
	}
	if n := o.out.Counts[vnic.TxFIFO]; n != 3 || s.full || len(s.batch) != 0 || len(s.free) != free {
		t.Errorf("%d packets are counted; full %v, %d wait; %d of %d buffers are free", n, s.full,
			len(s.batch), len(s.free), free)
	}
}

// silentPath is the search for a host that answers nothing.
func silentPath() *vnic.PathSearch {
	p := vnic.NewPathSearch(Random)
	p.SetMost(0, 1472)
	for !p.Silent() {
		p.Probes(p.Due(), nil)
	}
	return p
}

// TestFullQueueSilencesNobody: while the own send buffer is full, living hosts do not become
// silent. Then all of them get their probes.
func TestFullQueueSilencesNobody(t *testing.T) {
	a, b, o := crowd(t)
	now := mono.Time(1)
	for lid := uint32(2); lid <= 4; lid++ {
		a.paths[lid] = narrowPath(1472, 1472)
		now = max(now, a.paths[lid].Due())
	}
	b.used = 1 << 20
	b.toAll(t, a, o)
	for range 1000 {
		if n := a.measure(now); n != 0 || a.silent.Load() != nil || a.pathsAt <= now {
			t.Fatalf("%d probes are sent; silent are %v; the next in %v", n, a.silent.Load(),
				a.pathsAt.Sub(now))
		}
		now = a.pathsAt
	}
	b.used = 0
	if n := a.measure(now); n != 3 {
		t.Errorf("%d probes when there is room", n)
	}
}

// TestStuckBatchLooks: if a batch waits, its hosts get one small probe each, once a second.
func TestStuckBatchLooks(t *testing.T) {
	a, b, _ := crowd(t)
	for lid := uint32(2); lid <= 4; lid++ {
		a.paths[lid] = narrowPath(1472, 1472)
	}
	s := a.senders[0]
	now := a.paths[2].Due().Add(-5 * time.Second)
	s.batch = append(s.batch, fabric.Send{To: 3})
	s.stick()
	s.batch = nil
	n := a.measure(now)
	if n != 1 || !slices.Equal(b.sent, []fabric.Addr{3}) || b.bytes != vnic.SizeProbeBytes {
		t.Errorf("%d probes with %d bytes go to %v", n, b.bytes, b.sent)
	}
	s.batch = append(s.batch, fabric.Send{To: 4})
	s.stick()
	s.batch = nil
	a.lookAt, a.dialAt, a.pathsAt = mono.Never, mono.Never, mono.Never
	if d := a.rest(now.Add(doubtPause-1), mono.Never); d != 1 {
		t.Errorf("the control thread rests for %v, want 1ns", d)
	}
	b.sent = nil
	if a.measure(now.Add(doubtPause - 1)); count(b.sent, 4) != 0 {
		t.Error("a second look in the same second")
	}
	if a.measure(now.Add(doubtPause)); count(b.sent, 4) != 1 {
		t.Error("a batch that waited is forgotten")
	}
}

// TestDoubtBeforeRest: a doubt that another thread has before the control thread sleeps ends its
// rest in time.
func TestDoubtBeforeRest(t *testing.T) {
	a := newAgent(t)
	now := mono.Time(1)
	a.lookAt, a.dialAt, a.pathsAt = mono.Never, mono.Never, mono.Never
	a.doubtAt = now.Add(time.Millisecond)
	if d := a.rest(now, mono.Never); d <= time.Millisecond {
		t.Fatalf("without work the control thread rests for %v", d)
	}
	a.doubt()
	if d := a.rest(now, mono.Never); d != time.Millisecond {
		t.Errorf("with a doubt the control thread rests for %v", d)
	}
}

// TestReturnOfSilentHost: a host that asks, or that gets other addresses, gets a probe within 100
// ms although it was silent for long.
func TestReturnOfSilentHost(t *testing.T) {
	for _, moved := range []bool{false, true} {
		a, b, _ := crowd(t)
		p := silentPath()
		a.paths[3] = p
		now := p.Due()
		for range 200 {
			now = p.Due()
			p.Probes(now, nil)
		}
		a.tellSilent()
		a.pathsAt = p.Due()
		here := func(port byte) []vnic.LIDEntry {
			return []vnic.LIDEntry{{LID: 3, Ways: vnic.Ways{Receive: [][]byte{{port}}}}}
		}
		if a.met(here(1), here(1)); a.pathsAt.Sub(now) < time.Second {
			t.Fatalf("the next probe is due in %v", a.pathsAt.Sub(now))
		}
		if moved {
			a.met(here(1), here(2))
		} else {
			a.sizeProbed(sizeProbe{3, vnic.SizeAsks, 1})
			a.measure(now)
		}
		b.sent = nil
		if a.pathsAt.Sub(now) > 100*time.Millisecond || !p.Silent() {
			t.Errorf("moved %v: the next probe is due in %v, silent %v", moved, a.pathsAt.Sub(now),
				p.Silent())
		}
		if n := a.measure(a.pathsAt); n != 1 || len(b.sent) != 1 {
			t.Errorf("moved %v: %d probes", moved, n)
		}
	}
}

// busyQueue is a device that always has a frame.
type busyQueue struct {
	fakeQueue
	frame []byte
	read  int
}

func (q *busyQueue) Read(b []byte) (offload.Header, int, error) {
	q.read++
	return offload.Header{}, copy(b, q.frame), nil
}

// TestBusyPorts: of two ports that fill the send queue, none starves the other.
func TestBusyPorts(t *testing.T) {
	a, b, o := crowd(t)
	s := a.senders[0]
	tables := *o.out.Tables()
	for range 20 { // one turn of a port fills the batch
		tables.Members = append(tables.Members, 2)
	}
	var queues [2]busyQueue
	s.outlets = nil
	for i := range queues {
		queues[i].frame = probeFrame(vnic.Broadcast, 0, probeAsks, 1)
		one := &outlet{
			port: &port{num: uint8(i + 1)}, mtuBytes: 1472, out: vnic.NewEgress(nil, nil, nil, 1),
			queue: &queues[i],
		}
		one.out.SetTables(&tables)
		s.outlets = append(s.outlets, one)
	}
	b.used = 1 << 20
	for range 20 * postTries {
		if _, _, _, err := s.pass(); err != nil {
			t.Fatal(err)
		}
	}
	x, y := queues[0].read, queues[1].read
	if x < 10 || y < 10 || max(x, y) > 2*min(x, y) {
		t.Errorf("%d and %d frames are read", x, y)
	}
}

// TestLargeFrameToSilentHost: a frame that is larger than the part of the silent hosts goes to one
// if the send buffer is empty. A frame without room takes no room from smaller ones.
func TestLargeFrameToSilentHost(t *testing.T) {
	a, b, _ := crowd(t)
	a.paths[3] = silentPath()
	a.tellSilent()
	q := &a.senders[0].quiet
	if !q.admits(3, 900<<10) || q.admits(3, 1) {
		t.Error("an empty send buffer admits other than one large frame")
	}
	b.used, q.known = 1<<10, false
	if q.admits(3, 900<<10) || !q.admits(3, 10<<10) {
		t.Error("a large frame takes the room of a small one, or goes")
	}
}

// TestSizeProbesOfOneHost: a host that sends size probes without end does not keep those of another
// from the control thread.
func TestSizeProbesOfOneHost(t *testing.T) {
	a := newAgent(t)
	r := a.receivers[0]
	r.now = 1
	heard := map[uint32]int{}
	drain := func() {
		for len(a.sized) > 0 {
			heard[(<-a.sized).from]++
		}
	}
	for i := range 10_000 {
		r.sizeProbed(sizeProbe{2, vnic.SizeAsks, 1})
		if i%100 == 0 {
			r.sizeProbed(sizeProbe{3, vnic.SizeAsks, 1})
			drain()
		}
	}
	drain()
	if heard[2] != probesMax || heard[3] != 100 {
		t.Errorf("%d probes of the busy host are heard, %d of 100 of the other", heard[2], heard[3])
	}
	r.now = r.now.Add(time.Second)
	if r.sizeProbed(sizeProbe{2, vnic.SizeAsks, 1}); len(a.sized) != 1 {
		t.Error("a second later the host is not heard")
	}
}
