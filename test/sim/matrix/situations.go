package matrix

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Figures are the results of a Situation, by their units. Smaller values are better, except in
// MB/s, Jain and landed-%.
type Figures map[string]float64

// Situation is a simulated scene, which a certain mechanism of the transport was made for. The same
// sources always give the same figures.
type Situation struct {
	Name string
	run  func(seed uint64) (Figures, error)
}

// situationRuns is the number of runs of a Situation, whose figures are averaged. The runs differ
// in their seeds, and in a few nanoseconds of the round trip.
const situationRuns = 3

// Run returns the mean figures of several runs.
func (s *Situation) Run() (Figures, error) {
	mean := Figures{}
	for seed := range uint64(situationRuns) {
		f, err := s.run(seed)
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", s.Name, seed, err)
		}
		for unit, x := range f {
			mean[unit] += x / situationRuns
		}
	}
	return mean, nil
}

// FindSituation returns the Situation with the given name. The name of a cell of the matrix, such
// as "1ms 1G queue 1 loss 1% reorder 0%", is a Situation, too.
func FindSituation(name string) (*Situation, error) {
	for _, c := range Cells() {
		if c.String() == name {
			return &Situation{name, func(seed uint64) (Figures, error) { return cellFigures(c, seed) }}, nil
		}
	}
	i := slices.IndexFunc(situations, func(s Situation) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no situation %q", name)
	}
	return &situations[i], nil
}

// noEnd is more bytes than a stream delivers in any time of a situation.
const noEnd = math.MaxInt / 2

var situations = []Situation{
	{"lost tail", lostTail},
	{"lost end", lostEnd},
	{"path cut", pathCut},
	{"message cut", messageCut},
	{"beside a full queue", besideFullQueue},
	{"16 flows", sixteenFlows},
	{"delay varies", delayVaries},
	{"tunnel", throughTunnel},
	{"short transfer", shortTransfer},
	{"path grows", pathGrows},
	{"rare receiver", rareReceiver},
	{"sender pauses", senderPauses},
	{"sleepy peer", sleepyPeer},
	{"small buffer", smallBuffer},
	{"ping-pong", pingPong},
	{"rare requests", rareRequests},
	{"2000 B messages", messages2000},
	{"bursts of 8 B", bursts},
	{"beside bulk", besideBulk},
	{"among many", amongMany(crowd{32 << 10, 1, 0, 0})},
	{"among many, 64 buffers", amongMany(crowd{2000, 1, 64, 0})},
	{"among many, 256 buffers", amongMany(crowd{32 << 10, 1, 256, 0})},
	{"among many, slow sender", amongMany(crowd{2000, 1, 0, 50 * time.Microsecond})},
	{"bursts among many, slow sender", amongMany(crowd{8, 8, 0, 50 * time.Microsecond})},
	{"urgent", urgent},
	{"little memory", littleMemory},
	{"two large senders", twoLargeSenders},
	{"stalled peer", stalledPeer},
}

func cellFigures(c Cell, seed uint64) (Figures, error) {
	c.RTT += time.Duration(seed)
	e := Effort{
		RoundTrips: 40, PacketsMin: 4000, PacketsMax: 16000, TimeMax: 2 * time.Second, Pings: 1000,
	}
	r, err := Measure(c, "adaptive", e, nil)
	return Figures{
		"MB/s": r.Goodput / 1e6, "pair-MB/s": r.PairShare * r.ceiling(2, r.MessageBytes) / 1e6,
		"Jain": r.Jain, "resent-%": 100 * r.Resent, "spurious-%": 100 * r.Spurious,
		"p50-us": us(r.P50), "p99.9-us": us(r.P999),
	}, err
}

// scene is a world with pairs of hosts, for one run of a Situation.
type scene struct {
	*world
	pairs []pair
	path  Cell
}

// stage makes so many pairs of hosts, which share the bottleneck of a cell.
func stage(c Cell, seed uint64, count int) (*scene, error) {
	c.RTT += time.Duration(seed)
	w, all, err := c.pairs(count, "adaptive", nil)
	if err != nil {
		return nil, err
	}
	return &scene{w, all, c}, nil
}

// gather makes so many senders to one receiver, each with a path of its own and with nearly the
// same round trip.
func gather(net sim.Config, path Cell, seed uint64, senders int, cfg btl.Config) (*scene, error) {
	net.Seed = 1 + seed
	if net.QueueDatagrams == 0 {
		net.QueueDatagrams = receiverPackets
	}
	w, err := newWorld(net)
	if err != nil {
		return nil, err
	}
	hosts, err := w.openAll(senders+1, cfg)
	if err != nil {
		return nil, err
	}
	s := &scene{w, make([]pair, senders), path}
	for i := range s.pairs {
		p := pair{from: hosts[1+i], to: hosts[0]}
		if p.ep, err = w.connect(p.from, p.to); err != nil {
			return nil, err
		}
		c := path
		c.RTT += time.Duration(i)*time.Microsecond + time.Duration(seed)
		w.setPaths(p.from, p.to, c.path(new(sim.Line)), c.path(new(sim.Line)))
		s.pairs[i] = p
	}
	return s, nil
}

// close frees the network, and returns the first error of a module.
func (s *scene) close() error {
	err := s.check()
	s.Network.Close()
	return err
}

// finish runs until a stream has sent all its messages, and returns how long that took.
func (s *scene) finish(x *stream, limit time.Duration) (time.Duration, error) {
	began := s.Now()
	over := func() bool { return x.left == 0 && x.under == 0 || x.err != nil }
	if err := s.Until(began.Add(limit), over); err != nil {
		return 0, fmt.Errorf("%d messages done, %d under way: %w", x.done, x.under, err)
	}
	return s.Now().Sub(began), x.err
}

// send sends so many messages, depth at a time, and returns how long that took.
func (s *scene) send(p *pair, sizeBytes, depth, count int) (time.Duration, error) {
	x := newStream(p.ep, sizeBytes, depth)
	x.left = count
	x.start(p.from)
	return s.finish(x, time.Minute)
}

// learn lets a pair exchange some messages, so that it knows its round trip.
func (s *scene) learn(p *pair) error {
	for range 20 {
		if _, err := s.send(p, 64, 1, 5); err != nil {
			return err
		}
		s.Advance(time.Millisecond)
	}
	return nil
}

// packets is the number of datagrams that all nodes have sent.
func (s *scene) packets() float64 { return float64(s.Counts()[sim.KindSent]) }

// resent is the number of retransmissions of a host.
func (h *host) resent() float64 {
	s := h.Mod.Stats()
	return float64(s.Retransmits())
}

// clean is a path that loses nothing by itself.
func clean(rtt time.Duration, bitsPerSecond int64, queueBDP float64) Cell {
	return Cell{RTT: rtt, BitsPerSecond: bitsPerSecond, QueueBDP: queueBDP}
}

// lostTail loses the last packet of a message of 45 packets.
func lostTail(seed uint64) (Figures, error) { return lostFrom(seed, 45) }

// lostEnd loses the last 20 packets of a message of 45 packets.
func lostEnd(seed uint64) (Figures, error) { return lostFrom(seed, 26) }

// lostFrom loses the packets of a message of 45 packets from packet first on.
func lostFrom(seed uint64, first int) (Figures, error) {
	s, err := stage(clean(time.Millisecond, 10e9, 4), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	const packets = 45
	n := 0
	s.SetFilter(func(d *sim.Datagram) sim.Verdict {
		var h frag.Header
		if _, err := frag.Decode(d.Data, &h); err != nil || h.Kind != frag.KindChunk {
			return sim.Verdict{}
		}
		n++
		return sim.Verdict{Drop: first <= n && n <= packets}
	})
	began, before := s.Now(), p.to.gotBytes
	x := newStream(p.ep, packets*chunkBytes, 1)
	x.left = 1
	x.start(p.from)
	err = s.Until(began.Add(time.Second), func() bool { return p.to.gotBytes > before })
	if err != nil {
		return nil, err
	}
	took := s.Now().Sub(began)
	s.Advance(time.Second)
	return Figures{"us/op": us(took)}, s.close()
}

// pathCut cuts the path of a stream for half a second, and measures the next 30 MB.
func pathCut(seed uint64) (Figures, error) {
	s, err := stage(clean(time.Millisecond, 1e9, 1), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	p.stream(streamBytes)
	s.Advance(200 * time.Millisecond)
	there := s.path.path(p.line)
	cut := there
	cut.Cut = true
	s.setPaths(p.from, p.to, cut, cut)
	s.Advance(500*time.Millisecond + time.Duration(seed)*time.Millisecond)
	s.setPaths(p.from, p.to, there, s.path.path(new(sim.Line)))
	began, again := s.Now(), p.from.resent()
	s.delivered(30e6, 20*time.Second, p.to)
	f := Figures{"ms/op": us(s.Now().Sub(began)) / 1e3, "resent": p.from.resent() - again}
	return f, s.close()
}

// messageCut sends a message of 60 packets while the path is cut, and measures the time from the
// end of the cut until the message is acknowledged.
func messageCut(seed uint64) (Figures, error) {
	s, err := stage(clean(time.Millisecond, 1e9, 1), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	if _, err := s.send(p, 1<<20, 1, 10); err != nil { // for a window of more than 60 packets
		return nil, err
	}
	there := s.path.path(p.line)
	cut := there
	cut.Cut = true
	s.setPaths(p.from, p.to, cut, cut)
	x := newStream(p.ep, 60*chunkBytes, 1)
	x.left = 1
	x.start(p.from)
	s.Advance(200*time.Millisecond + time.Duration(seed)*time.Millisecond)
	s.setPaths(p.from, p.to, there, s.path.path(new(sim.Line)))
	took, err := s.finish(x, 10*time.Second)
	return Figures{"ms/op": us(took) / 1e3}, errors.Join(err, s.close())
}

// besideFullQueue is a stream beside another one that begins later, has no congestion control, and
// keeps the queue full.
func besideFullQueue(seed uint64) (Figures, error) {
	w, err := newWorld(sim.Config{Seed: 1 + seed, QueueDatagrams: receiverPackets})
	if err != nil {
		return nil, err
	}
	c := clean(5*time.Millisecond+time.Duration(seed), 1e9, 10)
	there, back := new(sim.Line), new(sim.Line)
	s := &scene{world: w, path: c}
	for _, congestion := range []string{reliability.CongestionDelay, reliability.CongestionFixed} {
		cfg := btl.Config{Profile: "adaptive", SendBuffers: 2 * reliability.WindowDefault}
		cfg.Rules.Congestion = congestion
		hosts, err := w.openAll(2, cfg)
		if err != nil {
			return nil, err
		}
		p := pair{from: hosts[0], to: hosts[1], line: there}
		if p.ep, err = w.connect(p.from, p.to); err != nil {
			return nil, err
		}
		w.setPaths(p.from, p.to, c.path(there), c.path(back))
		s.pairs = append(s.pairs, p)
		s.pairs[len(s.pairs)-1].stream(streamBytes)
		s.Advance(300 * time.Millisecond)
	}
	s.Advance(500 * time.Millisecond)
	rates := s.delivered(noEnd, 1500*time.Millisecond, s.pairs[0].to, s.pairs[1].to)
	return Figures{"MB/s": rates[0] / 1e6, "Jain": jain(rates)}, s.close()
}

// sixteenFlows has 16 streams begin one after the other at one bottleneck.
func sixteenFlows(seed uint64) (Figures, error) {
	const flows = 16
	s, err := stage(clean(time.Millisecond, 1e9, 12), seed, flows)
	if err != nil {
		return nil, err
	}
	to := make([]*host, flows)
	for i := range s.pairs {
		p := &s.pairs[i]
		to[i] = p.to
		c := s.path
		c.RTT += time.Duration(i) * time.Microsecond // none in step
		s.SetPath(p.from.Node, p.to.Node, c.path(p.line))
		newStream(p.ep, streamBytes, 64).start(p.from)
		s.Advance(time.Millisecond)
	}
	s.Advance(1500 * time.Millisecond)
	waits := make([]time.Duration, 0, 2000)
	rates := make([]float64, flows)
	for range cap(waits) {
		for i, r := range s.delivered(noEnd, 200*time.Microsecond, to...) {
			rates[i] += r / float64(cap(waits))
		}
		waits = append(waits, max(s.pairs[0].line.FreeAt().Sub(s.Now()), 0))
	}
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	p50, _, _ := quantiles(waits)
	return Figures{"MB/s": sum / 1e6, "Jain": jain(rates), "queue-us": us(p50)}, s.close()
}

// rateOf returns the rate of a stream after half a second.
func (s *scene) rateOf(p *pair, sizeBytes int) (Figures, error) {
	p.stream(sizeBytes)
	s.Advance(500 * time.Millisecond)
	sent, again := s.packets(), p.from.resent()
	rate := s.delivered(noEnd, time.Second, p.to)[0]
	f := Figures{
		"MB/s": rate / 1e6, "packets/KB": (s.packets() - sent) / rate * 1e3,
		"resent": p.from.resent() - again,
	}
	return f, s.close()
}

// delayVaries has a stream on a path that delays each packet by up to 3 ms more, there and back.
func delayVaries(seed uint64) (Figures, error) {
	s, err := stage(clean(200*time.Microsecond, 1e9, 20), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	there, back := s.path.path(p.line), s.path.path(new(sim.Line))
	there.Jitter, back.Jitter = 3*time.Millisecond, 3*time.Millisecond
	s.setPaths(p.from, p.to, there, back)
	return s.rateOf(p, streamBytes)
}

// throughTunnel has a stream through a program that forwards packets in order, each in 4 us, and
// that runs only after pauses of up to 1 ms.
func throughTunnel(seed uint64) (Figures, error) {
	s, err := stage(clean(50*time.Microsecond, 0, 1), seed, 1) // the program is the bottleneck
	if err != nil {
		return nil, err
	}
	wake, random := s.Now(), seed+1
	free := map[int]mono.Time{} // when the program has forwarded all packets of a host
	s.SetFilter(func(d *sim.Datagram) sim.Verdict {
		for wake < s.Now() {
			random = random*6364136223846793005 + 1442695040888963407
			wake = wake.Add(time.Duration(random>>33) % time.Millisecond)
		}
		at := max(free[d.From.Node], wake).Add(4 * time.Microsecond)
		free[d.From.Node] = at
		return sim.Verdict{Delay: at.Sub(s.Now())}
	})
	return s.rateOf(&s.pairs[0], streamBytes)
}

// shortTransfer sends 2 MB over a new connection on a long path.
func shortTransfer(seed uint64) (Figures, error) {
	s, err := stage(clean(20*time.Millisecond, 1e9, .25), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	took, err := s.send(p, 2e6, 1, 1)
	return Figures{"ms/op": us(took) / 1e3, "resent": p.from.resent()}, errors.Join(err, s.close())
}

// pathGrows has a stream on a path that becomes ten times as fast.
func pathGrows(seed uint64) (Figures, error) {
	s, err := stage(clean(20*time.Millisecond, 100e6, 1), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	p.stream(streamBytes)
	s.Advance(3 * time.Second)
	s.path.BitsPerSecond = 1e9
	s.setPaths(p.from, p.to, s.path.path(p.line), s.path.path(new(sim.Line)))
	rate := s.delivered(noEnd, 2*time.Second, p.to)[0]
	return Figures{"MB/s": rate / 1e6}, s.close()
}

// rareReceiver has a stream to a process that computes, and receives packets only every 2 ms.
func rareReceiver(seed uint64) (Figures, error) {
	s, err := stage(clean(200*time.Microsecond, 1e9, 20), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	p.to.SetPace(2 * time.Millisecond)
	return s.rateOf(p, streamBytes)
}

// senderPauses has bursts of messages from a process that does not run for 3 ms after each burst,
// and measures the time from the end of the pause until the burst is acknowledged.
func senderPauses(seed uint64) (Figures, error) {
	s, err := stage(clean(200*time.Microsecond, 1e9, 20), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	const count, messages, pause = 200, 31, 3 * time.Millisecond
	all := time.Duration(0)
	for range count {
		x := newStream(p.ep, 1400, messages)
		x.left = messages
		x.fill(s.Now())
		p.from.Pause(pause)
		took, err := s.finish(x, time.Second)
		if err != nil {
			return nil, err
		}
		all += took - pause
	}
	return Figures{"us/op": us(all) / count, "resent": p.from.resent()}, s.close()
}

// sleepyPeer sends a message every 100 ms to a peer that needs 700 us to wake up.
func sleepyPeer(seed uint64) (Figures, error) {
	s, err := stage(clean(100*time.Microsecond, 1e9, 20), seed, 1)
	if err != nil {
		return nil, err
	}
	p := &s.pairs[0]
	if err := s.learn(p); err != nil {
		return nil, err
	}
	const count = 100
	sent, again := s.packets(), p.from.resent()
	for range count {
		s.Advance(100 * time.Millisecond)
		p.to.Pause(700 * time.Microsecond)
		if _, err := s.send(p, 8, 1, 1); err != nil {
			return nil, err
		}
	}
	f := Figures{
		"packets/op": (s.packets() - sent) / count, "resent": p.from.resent() - again,
	}
	return f, s.close()
}
