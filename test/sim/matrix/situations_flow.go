package matrix

import (
	"errors"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
)

// smallBuffer has a stream over 40 ms to a receiver whose buffer holds 138 packets, as a socket
// does on a system that nobody has tuned.
func smallBuffer(seed uint64) (Figures, error) {
	w, err := newWorld(sim.Config{Seed: 1 + seed, QueueDatagrams: 138})
	if err != nil {
		return nil, err
	}
	hosts, err := w.openAll(2, btl.Config{Profile: "adaptive"})
	if err != nil {
		return nil, err
	}
	s := &scene{w, nil, clean(40*time.Millisecond+time.Duration(seed), 1e9, 1)}
	w.setPaths(hosts[0], hosts[1], s.path.path(new(sim.Line)), s.path.path(new(sim.Line)))
	ep, err := hosts[0].Connect(hosts[1].Host, 5*time.Second)
	if err != nil {
		return nil, err
	}
	s.Advance(time.Second)
	newStream(ep, 64<<10, 256).start(hosts[0])
	s.Advance(2 * time.Second)
	rate := s.delivered(noEnd, time.Second, hosts[1])[0]
	return Figures{"MB/s": rate / 1e6}, s.close()
}

// pingPong sends messages of 8 B to and fro.
func pingPong(seed uint64) (Figures, error) {
	s, err := stage(clean(20*time.Microsecond, 10e9, 20), seed, 1)
	if err != nil {
		return nil, err
	}
	return s.exchange(2000, 0)
}

// exchange sends messages of 8 B to and fro, with a pause after each answer.
func (s *scene) exchange(count int, pause time.Duration) (Figures, error) {
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	sent, all := s.packets(), 0.0
	for range count {
		x, err := newPings(p.from, p.to, p.ep, 2)
		if err != nil {
			return nil, err
		}
		x.start(p.from)
		if err := s.Until(s.Now().Add(time.Second), x.done); err != nil {
			return nil, err
		}
		all += us(x.took[0] + x.took[1])
		s.Advance(pause)
	}
	f := Figures{"us/op": all / float64(count), "packets/op": (s.packets() - sent) / float64(count)}
	return f, s.close()
}

// rareRequests sends a request every 10 ms, which is answered at once. Both modules are driven as
// by a Runner.
func rareRequests(seed uint64) (Figures, error) {
	w, err := newWorld(sim.Config{Seed: 1 + seed})
	if err != nil {
		return nil, err
	}
	hosts, err := w.openAll(2, btl.Config{Profile: "adaptive"})
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		h.Mod.Hooks().TakeOver()
	}
	s := &scene{w, make([]pair, 1), clean(100*time.Microsecond+time.Duration(seed), 1e9, 20)}
	p := &s.pairs[0]
	p.from, p.to = hosts[0], hosts[1]
	if p.ep, err = w.connect(p.from, p.to); err != nil {
		return nil, err
	}
	w.setPaths(p.from, p.to, s.path.path(new(sim.Line)), s.path.path(new(sim.Line)))
	return s.exchange(300, 10*time.Millisecond)
}

// messages2000 has a stream of messages that need a little more than one packet each.
func messages2000(seed uint64) (Figures, error) {
	s, err := stage(clean(200*time.Microsecond, 1e9, 20), seed, 1)
	if err != nil {
		return nil, err
	}
	return s.rateOf(&s.pairs[0], 2000)
}

// bursts sends 64 messages of 8 B at once, each time after the ACK of all.
func bursts(seed uint64) (Figures, error) {
	s, err := stage(clean(50*time.Microsecond, 100e6, 4), seed, 1)
	if err != nil {
		return nil, err
	}
	const count = 500
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	sent, began := s.packets(), s.Now()
	for range count {
		if _, err := s.send(p, 8, 64, 64); err != nil {
			return nil, err
		}
	}
	f := Figures{
		"us/op": us(s.Now().Sub(began)) / count, "packets/op": (s.packets() - sent) / count,
	}
	return f, s.close()
}

// besideBulk sends messages of 8 B to the peer that also gets very large messages, over a path that
// loses packets and holds more than a window.
func besideBulk(seed uint64) (Figures, error) {
	s, err := stage(Cell{20 * time.Millisecond, 10e9, 1, .001, 0}, seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	newStream(p.ep, 64<<20, 2).start(p.from)
	s.Advance(500 * time.Millisecond)
	x, err := newPings(p.from, p.to, p.ep, 100)
	if err != nil {
		return nil, err
	}
	x.start(p.from)
	if err := s.Until(s.Now().Add(20*time.Second), x.done); err != nil {
		return nil, err
	}
	p50, p99, _ := quantiles(x.took)
	return Figures{"p50-us": us(p50), "p99-us": us(p99)}, errors.Join(x.err, s.close())
}

// crowd describes the situations of amongMany.
type crowd struct {
	sizeBytes   int           // size of each message
	burst       int           // messages that are sent at once
	sendBuffers int           // btl.Config.SendBuffers
	pace        time.Duration // time that each call of Progress takes the sender, or 0
}

// amongMany returns a situation in which a module sends bursts of messages, one burst at a time,
// and also sends streams to 16 other peers. If the pace is 0, all peers are behind one line of 1
// Gbit/s. Otherwise each peer has a line of 10 Gbit/s, and the sender's CPU is the bottleneck.
func amongMany(c crowd) func(seed uint64) (Figures, error) {
	return func(seed uint64) (Figures, error) {
		s, err := c.stage(seed)
		if err != nil {
			return nil, err
		}
		last := len(s.pairs) - 1
		for i := range s.pairs[:last] {
			newStream(s.pairs[i].ep, 1<<20, 2).start(s.pairs[i].from)
		}
		s.Advance(200 * time.Millisecond)
		const count = 20
		took := time.Duration(0)
		for range count {
			one, err := s.send(&s.pairs[last], c.sizeBytes, c.burst, c.burst)
			if err != nil {
				return nil, err
			}
			took += one
			s.Advance(5 * time.Millisecond)
		}
		return Figures{"us/op": us(took) / count}, s.close()
	}
}

// The method "stage" connects a sender to 17 peers.
func (c crowd) stage(seed uint64) (*scene, error) {
	const peers = 17
	w, err := newWorld(sim.Config{Seed: 1 + seed, QueueDatagrams: receiverPackets})
	if err != nil {
		return nil, err
	}
	hosts, err := w.openAll(1+peers, btl.Config{Profile: "adaptive", SendBuffers: c.sendBuffers})
	if err != nil {
		return nil, err
	}
	path := clean(200*time.Microsecond+time.Duration(seed), 1e9, 4)
	if c.pace > 0 {
		path.BitsPerSecond = 10e9
	}
	s, line := &scene{w, make([]pair, peers), path}, new(sim.Line)
	for i := range s.pairs {
		p := &s.pairs[i]
		p.from, p.to = hosts[0], hosts[1+i]
		if p.ep, err = w.connect(p.from, p.to); err != nil {
			return nil, err
		}
		if c.pace > 0 {
			line = new(sim.Line)
		}
		w.setPaths(p.from, p.to, path.path(line), path.path(new(sim.Line)))
	}
	hosts[0].SetPace(c.pace)
	return s, nil
}

// urgent sends an urgent message behind 200 messages of one packet each.
func urgent(seed uint64) (Figures, error) {
	s, err := stage(clean(200*time.Microsecond, 1e9, 4), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	const count = 50
	total := time.Duration(0)
	came := false
	err = p.to.Mod.Handle(tagPing, func(*btl.Endpoint, btl.Tag, []byte) { came = true })
	if err != nil {
		return nil, err
	}
	for range count {
		x := newStream(p.ep, 1400, 200)
		x.left = 200
		x.start(p.from)
		began := s.Now()
		f, err := p.ep.Alloc(tagPing, 8)
		if err != nil {
			return nil, err
		}
		f.Urgent, came = true, false
		if _, err := p.ep.Send(began, f); err != nil {
			return nil, err
		}
		if err := s.Until(began.Add(time.Second), func() bool { return came }); err != nil {
			return nil, err
		}
		total += s.Now().Sub(began)
		if _, err := s.finish(x, time.Second); err != nil {
			return nil, err
		}
	}
	return Figures{"us/op": us(total) / count}, s.close()
}

// littleMemory has eight senders of messages of 1 MiB to a receiver with memory for two, over a
// reliable network.
func littleMemory(seed uint64) (Figures, error) {
	cfg := btl.Config{FragmentBytesMax: 1 << 20, ReassemblyBytesMax: 2 << 20}
	s, err := gather(sim.Config{Reliable: true}, clean(200*time.Microsecond, 1e9, 4), seed, 8, cfg)
	if err != nil {
		return nil, err
	}
	began, before := s.Now(), s.packets()
	streams := make([]*stream, len(s.pairs))
	for i := range s.pairs {
		p := &s.pairs[i]
		streams[i] = newStream(p.ep, 1<<20, 2)
		streams[i].left = 8
		streams[i].start(p.from)
	}
	resent := 0.0
	for i, x := range streams {
		if _, err := s.finish(x, time.Minute); err != nil {
			return nil, err
		}
		resent += s.pairs[i].from.resent()
	}
	f := Figures{
		"ms/op": us(s.Now().Sub(began)) / 1e3, "resent": resent, "packets": s.packets() - before,
	}
	return f, s.close()
}

// twoLargeSenders has two senders of messages of 1 MiB to one receiver, and counts the chunks that
// the provider writes to their final memory.
func twoLargeSenders(seed uint64) (Figures, error) {
	cfg := btl.Config{Profile: "adaptive"}
	s, err := gather(sim.Config{}, clean(100*time.Microsecond, 10e9, 4), seed, 2, cfg)
	if err != nil {
		return nil, err
	}
	for i := range s.pairs {
		newStream(s.pairs[i].ep, 1<<20, 4).start(s.pairs[i].from)
	}
	s.Advance(100 * time.Millisecond)
	before := s.pairs[0].to.Mod.Stats()
	rate := s.delivered(noEnd, 100*time.Millisecond, s.pairs[0].to)[0]
	after := s.pairs[0].to.Mod.Stats()
	landed := float64(after.Get(btl.CntLanded) - before.Get(btl.CntLanded))
	chunks := float64(after.Get(btl.CntRecvChunk) - before.Get(btl.CntRecvChunk))
	return Figures{"landed-%": 100 * landed / chunks, "MB/s": rate / 1e6}, s.close()
}

// stalledPeer has a module send to a peer that does not run, and to another one, whose rate counts.
func stalledPeer(seed uint64) (Figures, error) {
	w, err := newWorld(sim.Config{Seed: 1 + seed, QueueDatagrams: receiverPackets})
	if err != nil {
		return nil, err
	}
	cfg := btl.Config{Profile: "adaptive", SendBuffers: 256, PeerTimeout: time.Minute}
	hosts, err := w.openAll(3, cfg)
	if err != nil {
		return nil, err
	}
	s := &scene{w, make([]pair, 2), clean(200*time.Microsecond+time.Duration(seed), 1e9, 4)}
	for i := range s.pairs {
		p := &s.pairs[i]
		p.from, p.to = hosts[0], hosts[1+i]
		if p.ep, err = w.connect(p.from, p.to); err != nil {
			return nil, err
		}
		w.setPaths(p.from, p.to, s.path.path(new(sim.Line)), s.path.path(new(sim.Line)))
		newStream(p.ep, 1400, 512).start(p.from)
	}
	s.Advance(200 * time.Millisecond)
	s.pairs[0].to.Pause(2 * time.Second)
	s.Advance(100 * time.Millisecond)
	rate := s.delivered(noEnd, time.Second, s.pairs[1].to)[0]
	return Figures{"MB/s": rate / 1e6}, s.close()
}
