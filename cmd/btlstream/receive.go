package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gobtl/stream"
)

// reader reads the completed regions of one receiver, and returns them to the receiver.
type reader struct {
	s     *session
	rx    *stream.Receiver
	ring  *stream.Ring
	index int
	gaps  *gapList
	cpu   cpuMeter
	wrong uint64 // messages that differ from the pattern
	ended chan struct{}
	unmet error // why no sender was found
	err   error
}

// receive runs the receivers of this process.
func (s *session) receive() error {
	record, err := newRecorder(s.c.Record)
	if err != nil {
		return err
	}
	var readers []*reader
	var sources []source
	for i, ring := range s.rings {
		r := &reader{s: s, ring: ring, index: i, ended: make(chan struct{})}
		if r.gaps, err = newGapList(s.streamName(s.c.Missing, i)); err != nil {
			return err
		}
		cfg := s.c.config()
		cfg.Gap = r.gaps.add
		cfg.Unmonitored = r.unmonitored()
		cfg.Arrival = record.arrival()
		cfg.Begin = func() {
			if i == 0 {
				s.noteFaults()
			}
			r.cpu.begin()
		}
		s.sampled(&cfg, i)
		cfg.Refused = s.refused
		if r.rx, err = s.port.Receive(ring, cfg); err != nil {
			return err
		}
		readers = append(readers, r)
		sources = append(sources, source{stats: r.rx.Stats, done: r.rx.Done(), total: s.c.total()})
	}
	if err := s.watch(sources); err != nil {
		return err
	}
	var group sync.WaitGroup
	meet, cancel := s.meetingContext()
	defer cancel()
	if s.meeting != nil {
		go s.serveSenders(meet, readers)
	}
	for _, r := range readers {
		group.Go(func() {
			r.run(meet)
			r.cpu.end()
		})
	}
	group.Wait()
	return s.received(readers, record)
}

// noteFaults stores the counters of --impair before the first stream begins.
func (s *session) noteFaults() {
	if s.impaired != nil {
		s.meant = s.impaired.Counts()
	}
}

// streamName returns the name of a file for stream i. If there are several streams, the name of the
// file contains the number of the stream.
func (s *session) streamName(name string, i int) string {
	if name == "" || s.c.Streams == 1 {
		return name
	}
	return fmt.Sprintf("%s.stream%d", name, i)
}

// serveSenders gives each sender that connects to the meeting the identity of a receiver whose
// stream has not begun. serveSenders prefers receivers whose identity no sender has received yet.
// If several senders have the same identity, the first one that starts its stream gets the
// receiver, and the others connect again.
func (s *session) serveSenders(ctx context.Context, readers []*reader) {
	next := 0
	_ = s.meeting.Serve(ctx, stream.RoleReceiver, func(stream.Identity) (stream.Identity, error) {
		for _, alone := range []bool{true, false} {
			for range readers {
				r := readers[next%len(readers)]
				next++
				if !r.begun() && (!alone || !r.rx.Met()) {
					return r.rx.Identity(), nil
				}
			}
		}
		return stream.Identity{}, stream.ErrTaken
	}) // ends with the time limit of the meeting
}

// run waits for a sender, and reads until the stream has ended.
func (r *reader) run(meet context.Context) {
	var err error
	if r.s.meeting == nil {
		err = r.meet(meet)
	}
	if err == nil {
		go r.read()
		select {
		case <-r.rx.Done():
		case <-r.s.env.ctx.Done():
			err = context.Cause(r.s.env.ctx)
		}
	} else {
		close(r.ended)
	}
	if err != nil {
		if cause := context.Cause(r.s.env.ctx); cause != nil {
			err = cause
		}
		_ = r.s.port.AbortReceiver(r.rx, err) // an error means that the loop has ended
		<-r.rx.Done()
	} else if err = r.rx.Err(); errors.Is(err, stream.ErrTimeout) && r.unmet != nil {
		err = errors.Join(err, r.unmet)
	}
	<-r.ended
	r.err = err
}

// comeTime is the longest wait for the first transport packet of a sender that has exchanged
// identities.
const comeTime = 3 * time.Second

// meet offers this receiver to senders until a stream has begun. If a sender dies before its stream
// begins, meet offers the receiver to another sender. If a person carries the identities by hand,
// meet offers the receiver only once.
func (r *reader) meet(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.rx.Started():
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		_, err := r.s.exchange()(ctx, r.rx.Identity()) // the sender connects
		switch {
		case r.begun():
			r.unmet = err
			return nil
		case err != nil:
			return err
		case r.s.asksPerson() || !r.leftAlone(ctx):
			return nil // the receiver has its own timeout.
		}
		r.s.env.logf(logNotice, "the sender that was met does not come; waiting for another")
	}
}

// The method begun reports whether the stream has begun, even if it has already ended.
func (r *reader) begun() bool {
	select {
	case <-r.rx.Started():
		return true
	default:
		return false
	}
}

// leftAlone waits until the stream has begun, or until no sender has been connected for comeTime.
// leftAlone returns true if no sender was connected for comeTime.
func (r *reader) leftAlone(ctx context.Context) bool {
	const look = 50 * time.Millisecond
	for since := time.Now(); time.Since(since) < comeTime; {
		if !sleepUntil(ctx, time.Now().Add(look)) {
			return false
		}
		if r.rx.Met() {
			since = time.Now()
		}
	}
	return !r.begun()
}

// read processes the regions in the order in which they were completed. If another process reads
// the ring, this process only waits for the end of the stream.
func (r *reader) read() {
	defer close(r.ended)
	if r.s.c.Ring != "" || r.unmonitored() {
		<-r.rx.Done()
		return
	}
	var owed time.Duration
	for region := range r.rx.Completed() {
		if r.s.c.Verify {
			r.verify(region)
		}
		if owed += time.Duration(r.s.c.Delay) * time.Duration(region.Messages); owed >= time.Millisecond {
			begin := time.Now()
			sleepUntil(r.s.env.ctx, begin.Add(owed))
			owed -= time.Since(begin)
		}
		r.rx.Release(region)
	}
}

// unmonitored reports whether the stream completes regions without waiting for a reader in this
// process.
func (r *reader) unmonitored() bool {
	c := r.s.c
	return c.Delay == 0 && !c.Verify && c.Ring == ""
}

// verify compares the messages of a region with the sender's pattern.
func (r *reader) verify(region stream.Region) {
	size := r.ring.Geometry().MessageBytes
	period := max(r.rx.SenderMessages(), 1) // the sender's ring may have another size
	for k := range region.Messages {
		ordinal, ok := r.ring.Transferred(region.Index, k)
		if !ok {
			continue
		}
		at := int((ordinal-r.s.c.First)%period) * size
		for i, b := range region.Bytes[k*size : (k+1)*size] {
			if b != byte(at+i) {
				r.wrong++
				break
			}
		}
	}
}

// received saves the received data and reports them, also after a failed stream.
func (s *session) received(readers []*reader, record *recorder) error {
	var outcomes []outcome
	err := record.close()
	for _, r := range readers {
		own := r.err
		if r.wrong > 0 {
			own = errors.Join(own, fmt.Errorf("%d messages differ from the pattern", r.wrong))
		}
		own = errors.Join(own, r.gaps.close())
		if s.c.File != "" && r.rx.Stats().Sent > 0 {
			own = errors.Join(own, r.ring.Save(s.streamName(s.c.File, r.index)))
		}
		outcomes = append(outcomes, outcome{
			role: "receiver", stream: r.index, stats: r.rx.Stats(), cpu: r.cpu, err: own,
		})
		err = errors.Join(err, own)
	}
	if err == nil || slices.ContainsFunc(outcomes, func(o outcome) bool { return o.begun() }) {
		err = errors.Join(err, s.showRings())
	}
	return s.finish(outcomes, err)
}
