package matrix

import (
	"fmt"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Result is the performance of a profile on a cell.
type Result struct {
	Profile string `json:"profile"`
	Cell

	// MessageBytes is the size of the messages of the streams.
	MessageBytes int `json:"messageBytes"`

	// Goodput is the payload that one stream delivers, in bytes per second, and Share is the ratio
	// of Goodput to the cell's ceiling.
	Goodput float64 `json:"goodputBytesPerSecond"`
	Share   float64 `json:"share"`
	// Resent is the number of retransmitted packets, and Spurious the number of duplicates
	// received, each divided by the number of sent packets.
	Resent   float64 `json:"resent"`
	Spurious float64 `json:"spurious"`
	// Jain is the fairness between two streams at one bottleneck, from 0.5 if one gets everything to 1
	// if both get the same. PairShare is the ratio of the payload of both streams to the cell's
	// ceiling.
	Jain      float64 `json:"jain"`
	PairShare float64 `json:"pairShare"`
	// P50, P99 and P999 are percentiles of the one-way latency of 8-byte messages, one in flight at
	// a time.
	P50  time.Duration `json:"p50Ns"`
	P99  time.Duration `json:"p99Ns"`
	P999 time.Duration `json:"p999Ns"`
}

// Effort is the amount of data that a measurement sends.
type Effort struct {
	// RoundTrips is the length of a stream in round trips, limited to PacketsMin to PacketsMax
	// packets and to TimeMax of virtual time.
	RoundTrips             int
	PacketsMin, PacketsMax int
	TimeMax                time.Duration
	// Pings is the number of 8-byte messages. With a loss of 5 % in each direction one message in a
	// thousand is lost three times, so few messages give a random p99.9.
	Pings int
	// MessageBytes is the size of the messages of the streams, and 0 means 16 KiB.
	MessageBytes int
}

// Full is the effort for the whole matrix, and Quick is the effort for a test.
var (
	Full = Effort{
		RoundTrips: 40, PacketsMin: 5000, PacketsMax: 120000, TimeMax: 4 * time.Second, Pings: 4000,
	}
	Quick = Effort{
		RoundTrips: 40, PacketsMin: 6000, PacketsMax: 20000, TimeMax: 3 * time.Second, Pings: 20000,
	}
)

// volume returns the number of bytes of a measurement, and the time limit for them.
func (e Effort) volume(c Cell) (sizeBytes int, limit time.Duration) {
	window := min(c.bdpBytes()/mtuBytes, reliability.WindowDefault)
	packets := min(max(e.RoundTrips*window, e.PacketsMin), e.PacketsMax)
	return packets * chunkBytes, max(e.TimeMax, time.Duration(e.RoundTrips)*c.RTT)
}

// Measure measures a cell, and reuses memory unless it is nil.
func Measure(c Cell, profile string, e Effort, memory *sim.Memory) (Result, error) {
	r := Result{Profile: profile, Cell: c, MessageBytes: e.MessageBytes}
	if r.MessageBytes == 0 {
		r.MessageBytes = streamBytes
	}
	for _, run := range []func(*Result, Effort, *sim.Memory) error{
		(*Result).measureOne, (*Result).measureTwo, (*Result).measurePings,
	} {
		if err := run(&r, e, memory); err != nil {
			return r, fmt.Errorf("%s, %s: %w", profile, c, err)
		}
	}
	return r, nil
}

// pair is a sender and a receiver.
type pair struct {
	from, to *host
	ep       *btl.Endpoint
	line     *sim.Line // that all take from from to to
}

// pairs makes senders and receivers, which share the bottleneck of the cell.
func (c Cell) pairs(count int, profile string, memory *sim.Memory) (*world, []pair, error) {
	w, err := newWorld(sim.Config{
		Seed: c.seed(), QueueDatagrams: receiverPackets, Memory: memory,
	})
	if err != nil {
		return nil, nil, err
	}
	// There are two windows of send buffers, because one endpoint may have seven eighths of them.
	cfg := btl.Config{Profile: profile, SendBuffers: 2 * reliability.WindowDefault}
	there, back := new(sim.Line), new(sim.Line)
	all := make([]pair, count)
	for i := range all {
		hosts, err := w.openAll(2, cfg)
		if err != nil {
			return nil, nil, err
		}
		p := pair{from: hosts[0], to: hosts[1], line: there}
		if p.ep, err = w.connect(p.from, p.to); err != nil {
			return nil, nil, err
		}
		w.setPaths(p.from, p.to, c.path(there), c.path(back))
		all[i] = p
	}
	return w, all, nil
}

// The method stream starts an endless stream of messages of one size.
func (p *pair) stream(messageBytes int) {
	// With two windows of messages, there is always a message to send.
	depth := 2 * reliability.WindowDefault / packetsOf(messageBytes)
	p.to.ofBytes = messageBytes
	newStream(p.ep, messageBytes, depth).start(p.from)
}

// delivered runs until the receivers together have received the given number of bytes, or until the
// time limit. delivered returns the rate of each receiver, in bytes per second.
func (w *world) delivered(sizeBytes int, limit time.Duration, to ...*host) []float64 {
	sum := func() (n int) {
		for _, h := range to {
			n += h.got()
		}
		return n
	}
	began, enough := w.Now(), sum()+sizeBytes
	rates := make([]float64, len(to))
	for i, h := range to {
		rates[i] = -float64(h.got())
	}
	_ = w.Until(began.Add(limit), func() bool { return sum() >= enough }) // or the time is up
	took := w.Now().Sub(began).Seconds()
	for i, h := range to {
		rates[i] = (rates[i] + float64(h.got())) / took
	}
	return rates
}

// measureOne measures one stream, after a quarter of its time.
func (r *Result) measureOne(e Effort, memory *sim.Memory) error {
	w, all, err := r.pairs(1, r.Profile, memory)
	if err != nil {
		return err
	}
	defer w.Network.Close()
	p := &all[0]
	p.stream(r.MessageBytes)
	size, limit := e.volume(r.Cell)
	w.delivered(size/4, limit/4, p.to)
	from, to := p.from.Mod.Stats(), p.to.Mod.Stats()
	r.Goodput = w.delivered(size*3/4, limit*3/4, p.to)[0]
	r.Share = r.Goodput / r.ceiling(1, r.MessageBytes)
	fromNow, toNow := p.from.Mod.Stats(), p.to.Mod.Stats()
	sent := float64(fromNow.SegmentsSent() - from.SegmentsSent())
	r.Resent = float64(fromNow.Retransmits()-from.Retransmits()) / max(1, sent)
	r.Spurious = float64(toNow.Duplicates()-to.Duplicates()) / max(1, sent)
	return w.check()
}

// measureTwo measures two streams at one bottleneck between two pairs of hosts, where the second
// stream starts after the first one has reached its rate.
func (r *Result) measureTwo(e Effort, memory *sim.Memory) error {
	w, all, err := r.pairs(2, r.Profile, memory)
	if err != nil {
		return err
	}
	defer w.Network.Close()
	size, limit := e.volume(r.Cell)
	all[0].stream(r.MessageBytes)
	w.delivered(size/4, limit/4, all[0].to)
	all[1].stream(r.MessageBytes)
	w.delivered(3*size, limit, all[0].to, all[1].to)
	rates := w.delivered(2*size, limit, all[0].to, all[1].to)
	r.Jain = jain(rates)
	r.PairShare = (rates[0] + rates[1]) / r.ceiling(2, r.MessageBytes)
	return w.check()
}

// jain is Jain's index of fairness, which is 1 if all are equal and 1/n if one has everything.
func jain(rates []float64) float64 {
	var sum, squares float64
	for _, x := range rates {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(rates)) * squares)
}

// measurePings measures a ping-pong on the idle path.
func (r *Result) measurePings(e Effort, memory *sim.Memory) error {
	w, all, err := r.pairs(1, r.Profile, memory)
	if err != nil {
		return err
	}
	defer w.Network.Close()
	p, err := newPings(all[0].from, all[0].to, all[0].ep, e.Pings)
	if err != nil {
		return err
	}
	p.start(all[0].from)
	if w.Until(mono.Never, p.done) != nil || p.err != nil {
		return fmt.Errorf("%d of %d messages of 8 bytes arrived: %w", len(p.took), p.wanted, p.err)
	}
	r.P50, r.P99, r.P999 = quantiles(p.took)
	return w.check()
}

// quantiles sorts the values and returns their quantiles.
func quantiles(took []time.Duration) (p50, p99, p999 time.Duration) {
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[min(int(q*float64(len(took))), len(took)-1)] }
	return at(0.5), at(0.99), at(0.999)
}

// Text returns the result as a line of text.
func (r *Result) Text() string {
	return fmt.Sprintf("%-45v %7d B %-9s %5.1f%% of %7.1f Mbit/s, resent %.2f%%, spurious %.2f%%; "+
		"two: Jain %.3f, %.1f%%; 8 B: %v %v %v", r.Cell, r.MessageBytes, r.Profile, 100*r.Share,
		r.ceiling(1, r.MessageBytes)*8/1e6, 100*r.Resent, 100*r.Spurious, r.Jain, 100*r.PairShare,
		r.P50, r.P99, r.P999)
}
