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
}

func (b *sendBuffer) Backlog() (usedBytes, sizeBytes int) { return b.used, 1 << 20 }

func (b *sendBuffer) Post(sends []fabric.Send) (int, error) {
	if b.used == 1<<20 {
		return 0, fabric.ErrAgain
	}
	for i := range sends {
		b.sent = append(b.sent, sends[i].To)
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
	a.paths[3] = vnic.NewPathSearch(Random)
	a.paths[3].SetMost(0, 1472)
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
// get some probes in a second, so that a host that comes back is found. Other hosts get all.
func TestRareProbes(t *testing.T) {
	a, b, _ := crowd(t)
	a.paths[3] = vnic.NewPathSearch(Random)
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
	if !a.doubted.Load() {
		t.Error("nobody looks which hosts are silent")
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
	if heard[2] != sizesMax || heard[3] != 100 {
		t.Errorf("%d probes of the busy host are heard, %d of 100 of the other", heard[2], heard[3])
	}
	r.now = r.now.Add(time.Second)
	if r.sizeProbed(sizeProbe{2, vnic.SizeAsks, 1}); len(a.sized) != 1 {
		t.Error("a second later the host is not heard")
	}
}
