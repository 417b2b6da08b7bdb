package stream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/internal/waiting"
)

// PortConfig says how a Port is opened; the zero value of each field is a good default.
type PortConfig struct {
	// Transport tunes the module. KeepAlive and PeerTimeout are set from Timeout if they are 0, and
	// Rules.AckDelay to 10 us.
	Transport btl.Config
	// Timeout is the time without packets after which a peer is lost. 0 means 10 s; 100 ms to 1 h.
	Timeout time.Duration
	// ReliableOnly opens no data endpoint for the unreliable mode.
	ReliableOnly bool
	// DatagramBytes bounds the data endpoint's datagrams. 0 means the largest size of the network.
	DatagramBytes int
	// OpenData opens the domain of the unreliable mode; nil means fabric.Open. It is for programs
	// that wrap the domain.
	OpenData func(fabric.Info, fabric.DomainConfig) (fabric.Domain, error)
	// Spin is how long the loop polls after the latest event before it sleeps. 0 means 50 us, negative
	// never spins.
	Spin time.Duration
	// Setup runs on the loop's locked OS thread before the first pass, to pin it to a core for
	// example.
	Setup func() error
}

// Port is a process's endpoint in a network, for any number of senders and receivers. One goroutine
// with its own OS thread drives all of them. Any other goroutine may call the methods.
type Port struct {
	e     *Engine
	cfg   PortConfig
	dom   fabric.Domain // of the data endpoint; nil if there is none
	start time.Time
	done  chan struct{}
	// policy decides whether the loop yields to other threads. Only the loop uses it.
	policy *waiting.Policy
	// parked is set while the loop sleeps or is about to sleep.
	parked atomic.Bool

	lock    sync.Mutex // guards what follows
	inbox   []func()
	stopped bool
	closing bool
	until   time.Time
	err     error
}

// Open opens a port on a network that fabric.GetInfo has found, and starts its loop.
func Open(info fabric.Info, cfg PortConfig) (*Port, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Timeout < 100*time.Millisecond || cfg.Timeout > time.Hour {
		return nil, fmt.Errorf("%w: Timeout is %v, want 100ms to 1h", ErrConfig, cfg.Timeout)
	}
	if cfg.Spin == 0 {
		cfg.Spin = 50 * time.Microsecond
	}
	if cfg.OpenData == nil {
		cfg.OpenData = fabric.Open
	}
	m, err := openModule(info, cfg)
	if err != nil {
		return nil, err
	}
	var data fabric.Domain
	if !cfg.ReliableOnly {
		data, err = openData(info, cfg)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	e, err := NewEngine(m, data)
	if err != nil {
		return nil, err
	}
	p := &Port{e: e, cfg: cfg, dom: data, start: time.Now(), done: make(chan struct{})}
	p.policy = waiting.New(waiting.Busy, 0, new(waiting.OSThread), p.now())
	go p.loop()
	return p, nil
}

// ackDelay is short, because the sender of a reliable stream learns only from the ACK that a put is
// in place. No data goes back that could carry the ACK, and with a small ring the sender waits for
// it.
const ackDelay = 10 * time.Microsecond

func openModule(info fabric.Info, cfg PortConfig) (*btl.Module, error) {
	t := cfg.Transport
	if t.PeerTimeout == 0 {
		t.PeerTimeout = cfg.Timeout
	}
	if t.KeepAlive == 0 {
		t.KeepAlive = cfg.Timeout / 4
	}
	if t.Rules.AckDelay == 0 {
		t.Rules.AckDelay = ackDelay
	}
	dc, err := t.DomainConfig(info)
	if err != nil {
		return nil, err
	}
	dom, err := fabric.Open(info, dc)
	if err != nil {
		return nil, err
	}
	return btl.Open(dom, t)
}

// openData opens a second domain: its endpoint has another port than the module's.
func openData(info fabric.Info, cfg PortConfig) (fabric.Domain, error) {
	dc := DataConfig(info)
	if cfg.DatagramBytes != 0 {
		if cfg.DatagramBytes <= headerBytes {
			return nil, fmt.Errorf("%w: DatagramBytes is %d, want more than %d", ErrConfig,
				cfg.DatagramBytes, headerBytes)
		}
		dc.BufferBytes = min(cfg.DatagramBytes, info.MTUBytes)
	}
	return cfg.OpenData(dataInfo(info), dc)
}

func (p *Port) now() mono.Time { return mono.Time(time.Since(p.start)) + 1 }

// Started returns the wall-clock time of instant zero in Stats.
func (p *Port) Started() time.Time { return p.start }

func (p *Port) loop() {
	runtime.LockOSThread() // ends with the goroutine: its affinity may have been changed
	var err error
	if p.cfg.Setup != nil {
		err = p.cfg.Setup()
	}
	for last := p.now(); err == nil; {
		now := p.now()
		p.e.now = now
		busy := p.takeInbox()
		var n int
		n, err = p.e.Progress(now)
		if n > 0 || busy {
			last = now
		}
		if p.over() {
			break
		}
		switch {
		case err != nil || n > 0:
		case now.Sub(last) >= p.cfg.Spin:
			err = p.park(now)
		default:
			waiting.CedeBy(p.policy, p.now)
		}
	}
	p.lock.Lock()
	p.stopped = true
	left := p.inbox
	p.inbox = nil
	p.lock.Unlock()
	for _, fn := range left {
		fn() // finds the engine closed
	}
	err = errors.Join(err, p.e.Close())
	p.lock.Lock()
	p.err = err
	p.lock.Unlock()
	close(p.done)
}

// parkMax bounds a sleep: only one of the two domains can be slept on.
const parkMax = time.Millisecond

// park sleeps until something may have arrived, or the next deadline.
func (p *Port) park(now mono.Time) error {
	d := parkMax
	idle := len(p.e.sending)+len(p.e.receiving) == 0
	if idle {
		d = 20 * time.Millisecond
	}
	if d = sleepFor(d, now, p.e.Deadline()); d <= 0 {
		waiting.CedeBy(p.policy, p.now)
		return nil
	}
	p.parked.Store(true)
	defer p.parked.Store(false)
	w, ok := p.dom.(fabric.Waiter)
	if !ok || idle || p.listensToModule() {
		err := p.e.m.Wait(d)
		if errors.Is(err, fabric.ErrNotSupported) {
			time.Sleep(min(d, 100*time.Microsecond))
			return nil
		}
		return err
	}
	if p.e.data.waiting() {
		time.Sleep(min(d, 100*time.Microsecond)) // waiting datagrams would end every sleep
		return nil
	}
	return w.Wait(d)
}

// wakeEarly is longer than the delay of a kernel timer (50 us by default) plus a wake-up.
const wakeEarly = 60 * time.Microsecond

// sleepFor returns how long to sleep, up to a limit, so that the loop is awake at the deadline. At
// a fixed rate, a loop that is late for one message would be late for every message.
func sleepFor(most time.Duration, now, deadline mono.Time) time.Duration {
	if deadline == mono.Never {
		return most
	}
	return min(most, deadline.Sub(now)-wakeEarly)
}

// listensToModule reports whether no datagrams are expected at the data endpoint.
func (p *Port) listensToModule() bool {
	for _, r := range p.e.receiving {
		if r.cfg.Mode == Unreliable && r.state == stateRunning {
			return false
		}
	}
	return true
}

// nudge ends a sleep, for work that may wait until the loop wakes up by itself. If the loop is just
// falling asleep the work waits at most parkMax.
func (p *Port) nudge() {
	if p.parked.Load() {
		p.wake()
	}
}

// wake ends a sleep.
func (p *Port) wake() {
	p.e.m.Wake()
	if w, ok := p.dom.(fabric.Waiter); ok {
		w.Wake()
	}
}

func (p *Port) takeInbox() bool {
	p.lock.Lock()
	in := p.inbox
	p.inbox = nil
	p.lock.Unlock()
	for _, fn := range in {
		fn()
	}
	return len(in) > 0
}

// over reports whether the loop must end, because all goodbyes are sent or the time for them is
// over.
func (p *Port) over() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.closing && (p.e.drained() || time.Now().After(p.until))
}

// do runs fn on the loop's goroutine.
func (p *Port) do(fn func() error) error {
	ended := make(chan error, 1)
	p.lock.Lock()
	if p.stopped {
		p.lock.Unlock()
		return ErrClosed
	}
	p.inbox = append(p.inbox, func() { ended <- fn() })
	p.lock.Unlock()
	p.wake()
	return <-ended
}

// Send opens a sender of the populated regions of the ring. No other stream may use the ring.
// Connect adds the receivers.
func (p *Port) Send(ring *Ring, cfg Config) (s *Sender, err error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = p.cfg.Timeout
	}
	key := randomKey()
	err = p.do(func() (err error) {
		if s, err = p.e.newSender(ring, cfg, key); err == nil {
			ring.onWake(p.nudge)
		}
		return err
	})
	return s, err
}

// Receive opens a receiver that fills the ring. No other stream may use the ring, and all its
// regions must be unpopulated.
func (p *Port) Receive(ring *Ring, cfg Config) (r *Receiver, err error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = p.cfg.Timeout
	}
	key := randomKey()
	err = p.do(func() (err error) {
		if r, err = p.e.newReceiver(ring, cfg, key); err == nil {
			ring.onWake(p.nudge)
		}
		return err
	})
	return r, err
}

// Connect adds receivers to a sender of this port. It does not wait for connections; an unreachable
// receiver fails later.
func (p *Port) Connect(s *Sender, receivers ...Identity) error {
	return p.do(func() error {
		for _, id := range receivers {
			if err := s.addReceiver(id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Abort ends a sender with an error, which its receivers are told.
func (p *Port) Abort(s *Sender, err error) error {
	return p.do(func() error { s.fail(err); return nil })
}

// AbortReceiver ends a receiver with an error, which its sender is told.
func (p *Port) AbortReceiver(r *Receiver, err error) error {
	return p.do(func() error { r.fail(err); return nil })
}

// Transport returns the counters of the port's module.
func (p *Port) Transport() btl.Stats { return p.e.m.Stats() }

// Close closes the connections to all peers in order, until ctx ends but for at most a second, and
// then ends the port. Streams that are not done end with ErrClosed. Rings may be closed afterwards.
// With a nil context Close returns btl.ErrContext, and the port continues.
func (p *Port) Close(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	until := time.Now().Add(time.Second)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	_ = p.do(func() error { // fails if the loop has ended
		for _, s := range p.e.sending {
			s.fail(ErrClosed)
		}
		for _, r := range p.e.receiving {
			r.fail(ErrClosed)
		}
		p.e.drain(p.e.now.Add(time.Until(until)))
		return nil
	})
	p.lock.Lock()
	p.closing, p.until = true, until
	p.lock.Unlock()
	p.wake()
	<-p.done
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.err
}

// Done is closed when the port has ended, after Close or because the fabric failed.
func (p *Port) Done() <-chan struct{} { return p.done }

// randomKey draws the key of a stream.
func randomKey() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		if k := binary.LittleEndian.Uint64(b[:]); k != 0 {
			return k
		}
	}
}
