//go:build linux

package recovery

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // registers the family
)

// The constants below are the tags of messages, for echoes and, from firstTag on, for streams.
const (
	tagEcho  btl.Tag = 1
	firstTag btl.Tag = 2
	tagsMax          = 64
)

// spin is how long a process polls before it sleeps, as runner.Runner does.
const spin = 50 * time.Microsecond

// btlHost is a module with the loop that drives it.
type btlHost struct {
	m      *btl.Module
	sp     Spec
	s      *steering
	busyAt int64
	ep     *btl.Endpoint
	err    error // of the endpoint
	ledger

	mem      []byte
	inFlight int
	offered  int64
	acked    int64
	sendErr  error
	owed     []*btl.Endpoint // echoes that found no room
	gotEcho  bool
}

func openBTL(sp Spec, s *steering) (*btlHost, error) {
	var cfg btl.Config
	for _, kv := range sp.Set {
		name, value, _ := strings.Cut(kv, "=")
		if err := cfg.Set(name, value); err != nil {
			return nil, err
		}
	}
	provider := sp.Provider
	if provider == "" {
		provider = "udp"
	}
	infos, err := fabric.GetInfo(fabric.Hints{Provider: provider, Node: sp.Node})
	if err != nil {
		return nil, err
	}
	sizes, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, err
	}
	dom, err := fabric.Open(infos[0], sizes)
	if err != nil {
		return nil, err
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		return nil, err
	}
	h := &btlHost{m: m, sp: sp, s: s, mem: make([]byte, sp.SizeBytes)}
	s.onWake(m.Wake)
	m.OnEndpoint(func(ep *btl.Endpoint, ev btl.Event, err error) {
		if ev != btl.EventConnected && ep == h.ep {
			h.err = errors.Join(errors.New("the connection ended"), err)
		}
	})
	return h, nil
}

// pass is one iteration of the loop, which sleeps after some time without work.
func (h *btlHost) pass() (int64, error) {
	now := clockNs()
	n, err := h.m.Progress(btl.Time(now))
	if err == nil {
		err = errors.Join(h.err, h.sendErr)
	}
	if err != nil {
		return now, err
	}
	if n > 0 {
		h.busyAt = now
		return now, nil
	}
	if now-h.busyAt < int64(spin) {
		return now, nil
	}
	d := time.Millisecond
	if next := h.m.Deadline(); next != btl.Never {
		d = min(d, next.Sub(btl.Time(now)))
	}
	if d <= 0 {
		return now, nil
	}
	err = h.m.Wait(d)
	return clockNs(), err
}

func (h *btlHost) counters() map[string]uint64 {
	stats, all := h.m.Stats(), make(map[string]uint64)
	for _, c := range btl.Counters() {
		if n := stats.Get(c); n != 0 {
			all[c.String()] = n
		}
	}
	// The tables use these sums under short names.
	all["sent"], all["resent"], all["duplicates"] = stats.SegmentsSent(), stats.Retransmits(),
		stats.Duplicates()
	return all
}

func btlRole(sp Spec, s *steering) error {
	runtime.LockOSThread()
	h, err := openBTL(sp, s)
	if err != nil {
		return err
	}
	defer h.m.Close()
	switch sp.Role {
	case "serve":
		return h.serve()
	case "stream", "pingpong":
		return h.client()
	}
	return fmt.Errorf("no such role: %q", sp.Role)
}

func (h *btlHost) serve() error {
	if err := h.m.Handle(tagEcho, func(ep *btl.Endpoint, _ btl.Tag, _ []byte) {
		h.owed = append(h.owed, ep)
		h.echo(ep.Now())
	}); err != nil {
		return err
	}
	for i := range tagsMax {
		if err := h.m.Handle(firstTag+btl.Tag(i), func(_ *btl.Endpoint, _ btl.Tag, b []byte) {
			h.add(i, len(b))
		}); err != nil {
			return err
		}
	}
	name := hex.EncodeToString(h.m.Name())
	if err := h.s.say(message{Event: "name", Name: name}); err != nil {
		return err
	}
	for !h.s.stopped.Load() {
		now, err := h.pass()
		if err != nil {
			return err
		}
		h.echo(btl.Time(now))
		if !h.sp.Echo {
			h.tick(now)
		}
	}
	h.next = 0
	h.tick(clockNs())
	return h.s.say(message{Event: "report", Report: &Report{
		Ticks: h.ticks, Counters: h.counters(),
	}})
}

// echo sends the echoes that are due.
func (h *btlHost) echo(now btl.Time) {
	for len(h.owed) > 0 {
		var b [8]byte
		err := h.owed[0].SendImmediate(now, tagEcho, b[:])
		if errors.Is(err, btl.ErrAgain) {
			return
		}
		h.owed = h.owed[:copy(h.owed, h.owed[1:])]
	}
}

// connect opens the connection, and reports that the host is ready.
func (h *btlHost) connect() error {
	name, err := hex.DecodeString(h.sp.Peer)
	if err != nil {
		return err
	}
	if h.ep, err = h.m.Connect(btl.Time(clockNs()), name); err != nil {
		return err
	}
	for !h.ep.Connected() && err == nil {
		_, err = h.pass()
	}
	if err != nil {
		return err
	}
	if err := h.s.say(message{Event: "ready"}); err != nil {
		return err
	}
	for !h.s.begun.Load() && !h.s.stopped.Load() && err == nil {
		_, err = h.pass()
	}
	return err
}

func (h *btlHost) client() error {
	if err := h.m.Handle(tagEcho, func(*btl.Endpoint, btl.Tag, []byte) {
		h.gotEcho = true
	}); err != nil {
		return err
	}
	if err := h.connect(); err != nil {
		return err
	}
	play := h.stream
	if h.sp.Role == "pingpong" {
		play = h.pingPong
	}
	if h.sp.Warm > 0 {
		if err := play(clockNs()+int64(h.sp.Warm), nil); err != nil {
			return err
		}
	}
	before := h.counters()
	r := &Report{Start: clockNs(), Bytes: -h.acked}
	if err := play(r.Start+int64(h.sp.Each), r); err != nil {
		return err
	}
	r.End = clockNs()
	r.Bytes += h.acked
	r.Counters = h.counters()
	for name, n := range before {
		r.Counters[name] -= n
	}
	if err := h.s.say(message{Event: "report", Report: r}); err != nil {
		return err
	}
	for !h.s.stopped.Load() { // the peer may want ACKs yet
		if _, err := h.pass(); err != nil {
			break // It may have gone before.
		}
	}
	return nil
}

// stream keeps messages in flight until a given time, or until all are acknowledged.
func (h *btlHost) stream(until int64, r *Report) error {
	for now := clockNs(); now < until && !h.s.stopped.Load(); {
		for h.inFlight < h.sp.Outstanding && (h.sp.LimitBytes == 0 || h.offered < h.sp.LimitBytes) {
			f, err := h.ep.Prepare(firstTag+btl.Tag(h.sp.Tag), h.mem)
			if errors.Is(err, btl.ErrAgain) {
				break
			}
			if err != nil {
				return err
			}
			f.Signal, f.OnDone = true, h.done
			if _, err := h.ep.Send(btl.Time(now), f); errors.Is(err, btl.ErrAgain) {
				_ = h.ep.Free(f)
				break
			} else if err != nil {
				return err
			}
			h.inFlight++
			h.offered += int64(h.sp.SizeBytes)
		}
		if h.sp.LimitBytes != 0 && h.acked >= h.sp.LimitBytes {
			break
		}
		var err error
		if now, err = h.pass(); err != nil {
			return err
		}
	}
	return nil
}

func (h *btlHost) done(_ *btl.Fragment, err error) {
	h.inFlight--
	if h.acked += int64(h.sp.SizeBytes); err != nil {
		h.sendErr = err
	}
}

// lastEcho is how long the last round trip may take beyond the measured time.
const lastEcho = int64(8 * time.Second)

func (h *btlHost) pingPong(until int64, r *Report) error {
	var took []int64
	for now := clockNs(); now < until && !h.s.stopped.Load(); {
		start := now
		h.gotEcho = false
		for {
			err := h.ep.SendImmediate(btl.Time(now), tagEcho, h.mem)
			if err == nil {
				break
			}
			if !errors.Is(err, btl.ErrAgain) {
				return err
			}
			if now, err = h.pass(); err != nil || now > until+lastEcho {
				return err
			}
		}
		for !h.gotEcho {
			if _, err := h.pass(); err != nil {
				return err
			}
			if now = clockNs(); now > until+lastEcho {
				return errors.New("no echo")
			}
		}
		now = clockNs()
		took = append(took, now-start)
	}
	if r != nil {
		r.Messages, r.Latency = len(took), latencyOf(took)
	}
	return nil
}
