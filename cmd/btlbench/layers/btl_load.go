package layers

import (
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/mono"
)

// This file measures latency under load, which is the ping-pong of lat while the client streams a
// window of messages to the server on the same connection. A ping waits for the messages of the
// stream that the transport has queued before it.

const (
	// loadWarmup and loadCalibration are the times for which the stream runs alone before a round
	// with a percentage of the stream's rate.
	loadWarmup      = 50 * time.Millisecond
	loadCalibration = 100 * time.Millisecond
)

// loadStream is the stream that runs beside a ping-pong.
type loadStream struct {
	messages
	on     bool
	window int
	pace
}

// resetFor prepares the stream for a round, without starting it.
func (s *loadStream) resetFor(r *Round) {
	s.on, s.window, s.pace = false, loadWindow(r), pace{}
	s.messages.reset(s.window, r.LoadBytes, r.Verify)
}

// loadWindow is the number of messages of a side's stream that are in flight in a round.
func loadWindow(r *Round) int {
	if r.Test == plan.TestLatLoad && r.Load != plan.LoadIdle && !r.Server {
		return r.Window
	}
	return 0
}

// start starts the stream, at a given rate or without a limit.
func (s *loadStream) start(bytesPerNs float64, now mono.Time) {
	s.on = true
	s.pace.start(bytesPerNs, now)
}

// The method due reports whether the stream may send a message now.
func (s *loadStream) due(now mono.Time) bool {
	return s.inFlight < s.window && s.pace.due(now, s.size) > 0
}

// latLoadClient measures a ping-pong beside a stream, or the ping-pong of lat if there is no load.
func (p *btlPort) latLoadClient(r *Round) error {
	s := &p.stream
	if r.Load == plan.LoadIdle {
		return p.latClient(r)
	}
	bytesPerNs := 0.0
	if r.Load != plan.LoadMax {
		reached, err := p.calibrate(r)
		if err != nil {
			return err
		}
		bytesPerNs = reached * float64(r.Load) / 100
	}
	s.start(bytesPerNs, clock())
	if _, err := p.pingPong(r, newLimit(r.WarmupMessages, r.WarmupNs, clock())); err != nil {
		return err
	}
	r.Meter.Hist.Reset()
	acked, watch, begin := s.acked, startWatch(&p.waiter), clock()
	r.beginReports(begin, p.resentOnly)
	done, err := p.pingPong(r, newLimit(r.Messages, r.DurationNs, begin))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = watch.read()
	r.Meter.Messages, r.Meter.Bytes = 2*done, 2*done*int64(r.SizeBytes)
	r.Meter.LoadBytes = int64(s.acked-acked) * int64(r.LoadBytes)
	if err != nil {
		return err
	}
	return p.drainLoad()
}

// calibrate measures the rate of the stream alone.
func (p *btlPort) calibrate(r *Round) (bytesPerNs float64, err error) {
	s := &p.stream
	s.start(0, clock())
	if err := p.flowFor(r, loadWarmup); err != nil {
		return 0, err
	}
	acked, begin := s.acked, clock()
	if err := p.flowFor(r, loadCalibration); err != nil {
		return 0, err
	}
	reached := float64(s.acked-acked) * float64(r.LoadBytes) / float64(clock().Sub(begin))
	// A stream that has sent nothing during the calibration also gets a rate.
	reached = max(reached, float64(r.LoadBytes)/float64(loadCalibration))
	return reached, p.drainLoad()
}

// flowFor lets the stream run alone for some time.
func (p *btlPort) flowFor(r *Round, d time.Duration) error {
	for now, until := clock(), clock().Add(d); now < until && !r.over(); now = clock() {
		if _, err := p.m.Progress(now); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
		if err := p.feed(r, now); err != nil {
			return err
		}
	}
	return nil
}

// feed sends as many messages of the stream as are due now.
func (p *btlPort) feed(r *Round, now mono.Time) error {
	s := &p.stream
	for s.due(now) {
		slot, ok := s.take()
		if !ok {
			return nil
		}
		if r.Verify {
			fillPattern(s.slot(slot), r.LoadSent)
		}
		sent, err := s.send(p.ep, tagLoad, slot)
		if err != nil || !sent {
			return err
		}
		r.LoadSent++
		s.offered += float64(r.LoadBytes)
	}
	return nil
}

// drainLoad ends the stream, and waits until the peer has acknowledged all of it.
func (p *btlPort) drainLoad() error {
	s := &p.stream
	s.on = false
	flushed := false
	p.ep.Flush(clock(), func(error) { flushed = true }) // An error has ended the connection as well.
	for !flushed || s.inFlight > 0 {
		now := clock()
		n, err := p.m.Progress(now)
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return err
		}
		if n > 0 {
			p.waiter.busy()
		} else if p.waiter.idle() && p.stuck(now) {
			return errStuck
		}
	}
	return nil
}

// onLoad counts a message of the stream, and verifies it.
func (p *btlPort) onLoad(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	r := p.r
	r.loadTally.Messages++
	r.loadTally.Bytes += int64(len(data))
	if r.Verify {
		r.loadTally.check(data, r.LoadBytes)
	}
}
