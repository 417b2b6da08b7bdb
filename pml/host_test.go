package pml

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
)

const largeBytes = 300 << 10 // announced

// announcer is a peer that announces messages and accepts all that it gets, but sends no data.
type announcer struct {
	*Peer
	next uint32
}

func newAnnouncer(t *testing.T, step func() btl.Time, from, to *Layer) *announcer {
	t.Helper()
	a := &announcer{Peer: connected(t, step, to, from)}
	_ = from.m.Handle(0, nil)
	if err := from.m.Handle(0, func(*btl.Endpoint, btl.Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	return a
}

// announce is the arrival of announcements with tag 1.
func (a *announcer) announce(count int) {
	for range count {
		h := head{kind: kindAnnounce, number: a.next, a: 1, b: 1<<40 + uint64(a.next), c: largeBytes}
		b := make([]byte, h.bytes())
		h.put(b)
		a.l.arrive(a.ep, 0, b)
		a.next++
	}
}

// ofOneHost makes peers belong to the host of the first one. The network of the tests gives each
// peer a host of its own.
func ofOneHost(peers []*announcer) {
	h := peers[0].host
	for _, p := range peers[1:] {
		p.l.hosts.leave(p.Peer)
		h.peers.add(p.Peer)
		p.host = h
	}
}

func post(t *testing.T, l *Layer, now btl.Time, tag uint64) *Request {
	t.Helper()
	return postFrom(t, l, now, nil, tag)
}

func postFrom(t *testing.T, l *Layer, now btl.Time, from *Peer, tag uint64) *Request {
	t.Helper()
	r := new(Request)
	if err := l.Recv(now, r, from, tag, exactly, make([]byte, largeBytes)); err != nil {
		t.Fatal(err)
	}
	return r
}

// Peers that announce more large messages than a module has regions, and send no data, leave
// regions to others. This holds for peers of many hosts, and for peers of one host.
func TestRegionsOfOthers(t *testing.T) {
	t.Parallel()
	const bads = 17
	for name, oneHost := range map[string]bool{"one host": true, "many hosts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step, layers := memLayers(t, bads+2, Config{})
			l, good := layers[bads], layers[bads+1]
			peers := make([]*announcer, bads)
			for i := range peers {
				peers[i] = newAnnouncer(t, step, layers[i], l)
			}
			if oneHost {
				ofOneHost(peers)
			}
			for _, p := range peers {
				for range l.hosts.peerRegions {
					post(t, l, step(), 1)
				}
				p.announce(l.hosts.peerRegions)
				if p.err != nil || p.regions == 0 {
					t.Fatal(p.err, p.regions)
				}
			}
			to := connected(t, step, good, l)
			var sends [3]Request
			var recvs [3]*Request
			for i := range sends {
				recvs[i] = post(t, l, step(), 3)
				if err := good.Send(step(), &sends[i], to, 3, make([]byte, largeBytes), Standard); err != nil {
					t.Fatal(err)
				}
			}
			until(t, step, func() bool { return recvs[0].Done() && recvs[1].Done() && recvs[2].Done() })
			t.Logf("%d regions of %d are held, %d of one peer", l.hosts.regions, l.hosts.regionsMax,
				peers[0].regions)
			if oneHost && peers[0].host.regions > l.hosts.regionsMax/2 {
				t.Errorf("one host has %d of %d regions", peers[0].host.regions, l.hosts.regionsMax)
			}
		})
	}
}

// Peers that hold all regions and send no data are ended when another peer has waited for a region
// for long, and not before. A peer that goes on keeps its regions.
func TestStalledGivesRegionsBack(t *testing.T) {
	t.Parallel()
	const bads = 7
	layers, now := stepless(t, bads+3)
	step := func() btl.Time { return now(10 * time.Microsecond) }
	l, good, slow := layers[bads], layers[bads+1], layers[bads+2]
	l.hosts.regionsMax, l.hosts.peerRegions = bads+1, 1
	peers := make([]*announcer, bads)
	for i := range peers {
		peers[i] = newAnnouncer(t, step, layers[i], l)
		postFrom(t, l, step(), peers[i].Peer, 1)
		peers[i].announce(1)
	}
	going := newAnnouncer(t, step, slow, l)
	postFrom(t, l, step(), going.Peer, 1)
	going.announce(1)
	if l.hosts.regions != l.hosts.regionsMax {
		t.Fatalf("%d of %d regions", l.hosts.regions, l.hosts.regionsMax)
	}
	goOn := func(whole time.Duration) {
		for at := time.Duration(0); at < whole; at += 20 * time.Millisecond {
			now(20 * time.Millisecond)
			going.exposed.first.since = l.hosts.awake // as if it completed this message and began another
		}
	}
	ended := func() (n int) {
		for _, p := range peers {
			if errors.Is(p.err, btl.ErrStalled) {
				n++
			} else if p.err != nil {
				t.Fatal(p.err)
			}
		}
		return n
	}
	if goOn(4 * time.Minute); ended() != 0 {
		t.Fatal("peers are ended although nobody waits for a region")
	}
	to := connected(t, step, good, l)
	var send Request
	recv := post(t, l, step(), 3)
	if err := good.Send(step(), &send, to, 3, make([]byte, largeBytes), Standard); err != nil {
		t.Fatal(err)
	}
	if goOn(time.Second); ended() != 0 || recv.Done() {
		t.Fatal("peers are ended at once")
	}
	goOn(2 * l.hosts.timeout)
	until(t, step, recv.Done)
	if recv.Err() != nil || ended() != bads || going.err != nil || l.Stats().Shed != bads {
		t.Errorf("%v, %d of %d peers ended, the other one: %v", recv.Err(), ended(), bads, going.err)
	}
}

// The peers of one host use so many regions that one of them waits, although regions are free. A
// slow peer of another host, which uses one region, is not ended.
func TestStalledOfOtherHosts(t *testing.T) {
	t.Parallel()
	const bads = 5
	layers, now := stepless(t, bads+2)
	step := func() btl.Time { return now(10 * time.Microsecond) }
	l := layers[bads]
	l.hosts.regionsMax, l.hosts.peerRegions = 12, 1
	slow := newAnnouncer(t, step, layers[bads+1], l)
	peers := make([]*announcer, bads)
	for i := range peers {
		peers[i] = newAnnouncer(t, step, layers[i], l)
	}
	ofOneHost(peers)
	for _, p := range append([]*announcer{slow}, peers...) {
		postFrom(t, l, step(), p.Peer, 1)
		p.announce(1)
	}
	if slow.regions != 1 || l.hosts.homeless.first != peers[0].host || l.hosts.regions >= 12 {
		t.Fatalf("%d regions of the slow peer, %d of 12 in all, waiting: %v", slow.regions,
			l.hosts.regions, l.hosts.homeless.first)
	}
	for range 5 * 60 * 50 { // 5 minutes
		now(20 * time.Millisecond)
	}
	ended := 0
	for _, p := range peers {
		if errors.Is(p.err, btl.ErrStalled) {
			ended++
		}
	}
	if slow.err != nil || ended == 0 {
		t.Errorf("the slow peer: %v; %d peers of the busy host are ended", slow.err, ended)
	}
}

// The peer ends the receive r, as if all its data had arrived.
func (a *announcer) fin(r *Request) {
	h := head{kind: kindFin, a: r.id}
	b := make([]byte, h.bytes())
	h.put(b)
	a.l.arrive(a.ep, 0, b)
}

// A peer that completes a message now and then, but not its oldest message, is ended at the same
// time as a peer that completes no message.
func TestStalledBesideOthers(t *testing.T) {
	t.Parallel()
	const others = 5
	layers, now := stepless(t, others+2)
	step := func() btl.Time { return now(10 * time.Microsecond) }
	l := layers[0]
	bad := newAnnouncer(t, step, layers[1], l)
	var recvs [4]*Request
	for i := range recvs {
		recvs[i] = post(t, l, step(), 1)
	}
	bad.announce(len(recvs))
	if bad.regions != len(recvs) {
		t.Fatalf("%d regions", bad.regions)
	}
	l.hosts.regionsMax = l.hosts.regions
	for i := range others { // one after the other gets a region of the bad peer
		post(t, l, step(), 1)
		newAnnouncer(t, step, layers[2+i], l).announce(1)
	}
	for i := len(recvs) - 1; i > 0 && bad.err == nil; i-- {
		for range 28 * 50 { // 28 s
			now(20 * time.Millisecond)
		}
		if bad.err == nil {
			bad.fin(recvs[i])
		}
	}
	if !errors.Is(bad.err, btl.ErrStalled) || !errors.Is(recvs[0].Err(), btl.ErrStalled) {
		t.Errorf("%v, its oldest receive: %v", bad.err, recvs[0].Err())
	}
}

// The time that a peer may have its oldest region is the longer one of the times for the regions
// that it had at the beginning and has now.
func TestStalledTime(t *testing.T) {
	t.Parallel()
	layers, now := stepless(t, 2)
	step := func() btl.Time { return now(10 * time.Microsecond) }
	l := layers[0]
	a := newAnnouncer(t, step, layers[1], l)
	var recvs [4]*Request
	for i := range recvs {
		recvs[i] = post(t, l, step(), 1)
	}
	a.announce(len(recvs))
	s, begin := &l.hosts, l.hosts.awake
	const one = largeBytes / slowestBytesPerSecond * time.Second // time for one region, or less
	check := func(most time.Duration) {
		t.Helper()
		s.awake = begin + s.timeout + stalledAfter + most
		if s.stalled(a.Peer) {
			t.Errorf("stalled after %v", most)
		}
		if s.awake += 4 * time.Second; !s.stalled(a.Peer) {
			t.Errorf("not stalled after %v", most)
		}
		s.awake = begin
	}
	check(4 * one)
	for i, most := range []time.Duration{3 * one, 3 * one, 4 * one} {
		a.fin(recvs[i])
		check(most)
	}
}

// stepless is memLayers with steps of any length.
func stepless(t *testing.T, count int) ([]*Layer, func(time.Duration) btl.Time) {
	t.Helper()
	step, layers := memLayers(t, count, Config{})
	at := step()
	return layers, func(d time.Duration) btl.Time {
		at = at.Add(d)
		for _, l := range layers {
			if _, err := l.Progress(at); err != nil {
				t.Fatal(err)
			}
		}
		return at
	}
}

// All connected peers together hold at most TotalBytes. The host that holds the most loses peers,
// whether they have announced messages or do not accept the replies to their messages.
func TestTotalBytes(t *testing.T) {
	t.Parallel()
	const bads = 6
	for name, silent := range map[string]bool{"announcements": false, "replies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{UnexpectedBytes: 64 << 10, TotalBytes: 1 << 20, EnvelopesMax: 1 << 10}
			step, layers := memLayers(t, bads+2, cfg)
			l := layers[bads]
			good := newAnnouncer(t, step, layers[bads+1], l)
			peers := make([]*announcer, bads)
			for i := range peers {
				peers[i] = newAnnouncer(t, step, layers[i], l)
			}
			ofOneHost(peers)
			now := step()
			good.announce(900)
			for _, p := range peers {
				if silent {
					for range 7000 {
						l.answer(now, p.Peer, head{kind: kindMatched, a: 1})
					}
				} else {
					p.announce(1000)
				}
				if _, err := l.Progress(now); err != nil {
					t.Fatal(err)
				}
				if l.hosts.held > cfg.TotalBytes {
					t.Fatalf("%d bytes are held", l.hosts.held)
				}
			}
			ended := 0
			for _, p := range peers {
				if errors.Is(p.err, errTotal) {
					ended++
				}
			}
			if ended == 0 || ended == bads || uint64(ended) != l.Stats().Shed || good.err != nil {
				t.Errorf("%d of %d peers ended, the other one: %v", ended, bads, good.err)
			}
		})
	}
}

// A queue of control messages that has become empty gives its memory back.
func TestControlMemory(t *testing.T) {
	t.Parallel()
	step, a, b, to := memPair(t)
	from := connected(t, step, b, a)
	now := step()
	for range 10_000 {
		b.answer(now, from, head{kind: kindCredit}) // an old report
	}
	if from.held < int64(from.control.Len())*headMemory {
		t.Errorf("%d bytes are counted", from.held)
	}
	until(t, step, func() bool { return from.control.Len() == 0 })
	if from.held > controlKept*headMemory || from.err != nil || to.err != nil {
		t.Errorf("%d bytes are held, %v, %v", from.held, from.err, to.err)
	}
	if err := errors.Join(a.CheckIdle(), b.CheckIdle()); err != nil {
		t.Error(err)
	}
}
