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

// PortConfig has the settings of a Port. A zero field of a PortConfig means the default value.
type PortConfig struct {
	// Transport is the configuration of the btl module. A KeepAlive or PeerTimeout of 0 means a
	// value derived from Timeout. A Rules.AckDelay of 0 means 10 us.
	Transport btl.Config
	// Timeout is the time without packets after which a peer is considered lost. The range of
	// Timeout is 100 ms to 1 h, and a Timeout of 0 means 10 s.
	Timeout time.Duration
	// ReliableOnly disables the data endpoint for the unreliable mode.
	ReliableOnly bool
	// DatagramBytes is the largest size of the data endpoint's datagrams. A DatagramBytes of 0
	// means the largest size that the network permits.
	DatagramBytes int
	// OpenData opens the domain of the unreliable mode. If OpenData is nil, fabric.Open is used. By
	// setting OpenData, a program can wrap the domain of the unreliable mode in its own implementation
	// of fabric.Domain.
	OpenData func(fabric.Info, fabric.DomainConfig) (fabric.Domain, error)
	// Spin is how long the port's loop polls after the latest event before it sleeps. A Spin of 0
	// means 50 us. If Spin is negative, the loop sleeps without polling.
	Spin time.Duration
	// Setup runs on the loop's locked OS thread before the loop starts, for example to pin the
	// thread to a CPU.
	Setup func() error
}

// Port is the endpoint of a process in a network, for any number of senders and receivers. One
// goroutine (the loop), which is locked to an OS thread, does the work of all senders and
// receivers. The methods of Port are safe for concurrent use by several goroutines.
type Port struct {
	e     *Engine
	cfg   PortConfig
	dom   fabric.Domain // domain of the data endpoint; nil if there is none
	start time.Time
	done  chan struct{}
	// The field "policy" decides whether the loop yields the CPU to other threads. Only the loop may
	// access the field "policy".
	policy *waiting.Policy
	// The field "parked" is true while the loop sleeps or is about to sleep.
	parked atomic.Bool

	lock    sync.Mutex // guards the fields below
	inbox   []func()
	stopped bool
	closing bool
	until   time.Time
	err     error
}

// Open opens a port on a network from fabric.GetInfo, and starts the port's loop.
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

// ackDelay is the default delay of the btl module's acknowledgements. ackDelay is short, because
// the sender of a reliable stream waits for the acknowledgements of its puts.
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

// openData opens the domain of the data endpoint. The port number of the data endpoint differs from
// that of the btl module.
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

// Started returns the wall-clock time that corresponds to time zero in Stats.
func (p *Port) Started() time.Time { return p.start }

func (p *Port) loop() {
	runtime.LockOSThread() // the thread ends with the loop, because Setup may have changed the thread
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
		fn() // returns an error, because the engine is closed
	}
	err = errors.Join(err, p.e.Close())
	p.lock.Lock()
	p.err = err
	p.lock.Unlock()
	close(p.done)
}

// parkMax is the longest sleep of the loop. parkMax is short because packets for only one of the
// two domains (btl module and data endpoint) wake up a sleeping loop.
const parkMax = time.Millisecond

// park puts the loop to sleep until a packet has arrived or the next deadline is reached. park may
// return earlier.
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
		time.Sleep(min(d, 100*time.Microsecond)) // waiting datagrams would end each sleep at once
		return nil
	}
	return w.Wait(d)
}

// wakeEarly is how long before its deadline a sleeping loop wakes up. wakeEarly is slightly more
// than the usual delay of a kernel timer (50 us by default) plus the time of a wake-up.
const wakeEarly = 60 * time.Microsecond

// sleepFor returns how long the loop may sleep, which is at most the argument "most". The loop
// wakes up slightly before the deadline, because at a fixed rate a late wake-up would delay every
// message.
func sleepFor(most time.Duration, now, deadline mono.Time) time.Duration {
	if deadline == mono.Never {
		return most
	}
	return min(most, deadline.Sub(now)-wakeEarly)
}

// listensToModule reports whether no receiver expects datagrams at the data endpoint, so that the
// loop can sleep on the module's sockets.
func (p *Port) listensToModule() bool {
	for _, r := range p.e.receiving {
		if r.cfg.Mode == Unreliable && r.state == stateRunning {
			return false
		}
	}
	return true
}

// nudge wakes the loop if the loop is asleep. If the loop is just about to sleep when the method
// "nudge" is called, the wake-up can be lost, and the loop does the caller's work up to parkMax
// later.
func (p *Port) nudge() {
	if p.parked.Load() {
		p.wake()
	}
}

// wake ends a sleep of the loop.
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

// The method "over" reports whether the loop must end. After Close, the loop ends when all
// connections are closed, or when the time for closing the connections has passed.
func (p *Port) over() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.closing && (p.e.drained() || time.Now().After(p.until))
}

// do runs fn on the goroutine of the port's loop, and returns fn's error. After the end of the
// loop, the method "do" returns ErrClosed.
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

// Send creates a sender for the populated regions of the ring. No other stream may use the ring
// that is passed to Send. The program adds receivers with Connect.
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

// Receive creates a receiver that fills the ring. No other stream may use the ring that is passed
// to Receive, and no region of the ring may be populated.
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

// Connect adds receivers to a sender of this port. Connect does not wait for the connections to be
// established. If a receiver is unreachable, the stream to this receiver fails later. Connect does
// nothing for a receiver that the sender has already.
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

// Abort ends a sender with an error. The receivers get the text of the error.
func (p *Port) Abort(s *Sender, err error) error {
	return p.do(func() error { s.fail(err); return nil })
}

// AbortReceiver ends a receiver with an error. The sender gets the text of the error.
func (p *Port) AbortReceiver(r *Receiver, err error) error {
	return p.do(func() error { r.fail(err); return nil })
}

// Transport returns the counters of the port's btl module.
func (p *Port) Transport() btl.Stats { return p.e.m.Stats() }

// Close ends the port. Before the port ends, Close sends the messages that are queued for each
// peer, and closes the connection to the peer. Close waits at most one second, or until the
// deadline of ctx, for the connections to close. Streams that have not ended end with ErrClosed.
// The program may close the rings after Close has returned. If ctx is nil, Close returns
// btl.ErrContext and does nothing.
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

// Done returns a channel that is closed when the port has ended, after Close or because the fabric
// has failed.
func (p *Port) Done() <-chan struct{} { return p.done }

// randomKey returns a random key for a stream. randomKey never returns 0.
func randomKey() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		if k := binary.LittleEndian.Uint64(b[:]); k != 0 {
			return k
		}
	}
}
