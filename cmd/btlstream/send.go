package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gobtl/stream"
)

// send runs the sender of this process.
func (s *session) send() error {
	c, ring := s.c, s.rings[0]
	switch {
	case c.Ring != "": // another process fills the ring
	case c.File != "":
		if err := ring.Load(c.File); err != nil {
			return err
		}
	default:
		ring.Fill()
	}
	cfg := c.config()
	// The ring's memory is sent repeatedly without changes, unless another process fills the
	// regions.
	producer := c.Ring == "" && (c.total() == 0 || c.drops() && c.Mode == stream.Reliable)
	cfg.Unmonitored = c.Ring == "" && !producer
	if producer && c.drops() {
		const headroom = 1.25 // the instrument sets the pace; the sender only smooths it
		cfg.BitsPerSecond *= headroom
		cfg.Delay = time.Duration(float64(cfg.Delay) / headroom)
	}
	var cpu cpuMeter
	cfg.Begin = cpu.begin
	s.sampled(&cfg, 0)
	cfg.Refused = s.refused
	tx, err := s.port.Send(ring, cfg)
	if err != nil {
		return err
	}
	if err := s.watch([]source{{stats: tx.Stats, done: tx.Done(), total: c.total()}}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.env.ctx)
	defer cancel()
	if err = s.meetReceivers(ctx, tx); err == nil {
		err = s.showRings()
	}
	if err == nil && producer {
		go s.produce(ctx, tx)
	}
	if err == nil {
		err = s.waitSent(tx)
	} else {
		_ = s.port.Abort(tx, err) // an error means that the loop has ended
		<-tx.Done()
	}
	cpu.end()
	return s.finish([]outcome{{
		role: "sender", stats: tx.Stats(), reports: tx.Reports(), cpu: cpu, err: err,
	}}, err)
}

// meetReceivers passes the identities of the receivers to the sender. The receivers connect to this
// process, or this process connects to the receivers at given addresses. The identity of a single
// receiver may also come from a file or from a person.
func (s *session) meetReceivers(ctx context.Context, tx *stream.Sender) error {
	if s.meeting != nil {
		go s.serveReceivers(ctx, tx)
		return nil
	}
	meet, cancel := s.meetingContext()
	defer cancel()
	if len(s.c.Connect) == 0 {
		id, err := s.exchange()(meet, tx.Identity())
		if err == nil {
			err = s.port.Connect(tx, id)
		}
		return err
	}
	for _, address := range s.c.Connect {
		if err := s.visit(meet, tx, address); err != nil {
			return err
		}
	}
	return nil
}

// visit exchanges identities with the receiver at an address. If the receiver has accepted another
// sender, visit connects again.
func (s *session) visit(ctx context.Context, tx *stream.Sender, address string) error {
	id, err := stream.ExchangeAt(address)(ctx, tx.Identity())
	if err != nil {
		return err
	}
	taken := s.awaitTaken(id.Key)
	if err := s.port.Connect(tx, id); err != nil {
		return err
	}
	meet, cancel := s.meetingContext()
	go func() {
		defer cancel()
		select {
		case <-taken:
			s.env.logf(logNotice, "%s is taken by another sender; trying again", address)
			if sleepUntil(meet, time.Now().Add(againTime)) {
				if err := s.visit(meet, tx, address); err != nil {
					_ = s.port.Abort(tx, err) // an error means that the loop has ended
				}
			}
		case <-tx.Started():
		case <-meet.Done():
		}
	}()
	return nil
}

// againTime is the time between two connections to a receiver that has accepted another sender.
const againTime = 50 * time.Millisecond

// serveReceivers offers the stream to all receivers that connect to the meeting. The first
// receivers whose addresses are validated belong to the stream. In the unreliable mode receivers
// may join a running stream.
func (s *session) serveReceivers(ctx context.Context, tx *stream.Sender) {
	_ = s.meeting.Serve(ctx, stream.RoleSender, func(id stream.Identity) (stream.Identity, error) {
		err := s.port.Connect(tx, id)
		switch {
		case err == nil && started(tx):
			s.stranger(logInfo, "a receiver has come late")
		case err != nil && !errors.Is(err, stream.ErrTaken):
			s.stranger(logWarning, "a receiver that cannot be: %v", err)
		}
		return tx.Identity(), err
	}) // ends with the stream
}

// started reports whether a stream has begun.
func started(tx *stream.Sender) bool {
	select {
	case <-tx.Started():
		return true
	default:
		return false
	}
}

// waitSent waits for the end of the stream. A stream without end is ended in order after a signal.
func (s *session) waitSent(tx *stream.Sender) error {
	select {
	case <-tx.Done():
		return tx.Err()
	case <-s.env.ctx.Done():
	}
	cause := context.Cause(s.env.ctx)
	if s.c.total() == 0 {
		tx.Finish()
		select {
		case <-tx.Done():
			return errors.Join(cause, tx.Err())
		case <-time.After(s.c.Timeout):
		}
	}
	_ = s.port.Abort(tx, cause) // an error means that the loop has ended
	<-tx.Done()
	return cause
}

// produce simulates an instrument that makes messages at a given rate. If no region is free, the
// message is dropped or waits for a region, as the options say.
func (s *session) produce(ctx context.Context, tx *stream.Sender) {
	c := s.c
	select {
	case <-tx.Started():
	case <-ctx.Done():
		return
	}
	g := c.geometry()
	perMessage := float64(c.Delay)
	if c.Rate > 0 {
		perMessage = max(perMessage, float64(g.MessageBytes)*8/c.Rate)
	}
	begin := time.Now()
	for n, end := uint64(0), c.total(); end == 0 || n < end; {
		count := uint64(g.RegionMessages)
		if end > 0 {
			count = min(count, end-n)
		}
		if c.drops() {
			due := begin.Add(time.Duration(float64(n+count) * perMessage))
			if !sleepUntil(ctx, due) {
				return
			}
		}
		_, err := tx.Next(ctx)
		switch {
		case err == nil:
			err = tx.Populate(int(count))
		case errors.Is(err, stream.ErrOverrun):
			tx.Drop(count)
			err = nil
		}
		if err != nil {
			return
		}
		n += count
	}
	tx.Finish()
}

// sleepUntil sleeps until the time at, and returns false if ctx was cancelled before.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// finish stops the sampler, and writes the closing reports.
func (s *session) finish(outcomes []outcome, err error) error {
	e := s.sampler.close()
	if n := s.unseen.Load(); n > 0 {
		s.env.logf(logWarning, "-v: %d samples came too fast to be shown", n)
	}
	if w := s.report(outcomes); w != nil {
		e = errors.Join(e, fmt.Errorf("report: %w", w))
	}
	return errors.Join(err, e)
}
