package layers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// The constants are the tags of the benchmark's messages. The transport may deliver messages in any
// order, and therefore all counts and numbers in messages are absolute within a round.
const (
	tagData    btl.Tag = 1 // a message that is measured
	tagGo      btl.Tag = 2 // phase: the server of bibw may send
	tagFin     btl.Tag = 3 // phase, sent: no more comes in this phase
	tagFinSeen btl.Tag = 4 // received: all that the fin announced
	tagWindow  btl.Tag = 5 // received: a window is complete (rate)
	tagPut     btl.Tag = 6 // number, slot: a put is in place (put_bw with --verify)
	tagPutSeen btl.Tag = 7 // slot: its place may be written again
	tagLoad    btl.Tag = 8 // a message of the stream beside a ping-pong (lat_load)
	tagNotice  btl.Tag = 9 // a put is in place (notice)

	tagLast = tagNotice
)

// btlPort is one side of the measured transport, which is a module with one connection.
type btlPort struct {
	m   *btl.Module
	ep  *btl.Endpoint
	cfg *Config
	// err is the reason why the connection has ended.
	err error
	// mostBytes holds the longest messages of each tag of all rounds so far.
	mostBytes [tagLast + 1]uint32

	r *Round
	watchdog
	messages
	puts
	asking
	flow
	stream loadStream
	waiter waiter
}

var _ Layer = (*btlPort)(nil)

// openBTL opens a module for a layer.
func openBTL(open openDomainFunc, info *fabric.Info, cfg *Config, layer string,
) (*btlPort, error) {
	config, err := moduleConfig(cfg)
	if err != nil {
		return nil, err
	}
	dcfg, err := config.DomainConfig(*info)
	if err != nil {
		return nil, err
	}
	dom, err := open(dcfg)
	if err != nil {
		return nil, err
	}
	m, err := btl.Open(dom, config)
	if err != nil {
		return nil, err
	}
	p := &btlPort{m: m, cfg: cfg}
	p.waiter = newWaiter(cfg.wait(), p.sleep)
	p.doneFn, p.putDoneFn, p.askDoneFn = p.onDone, p.onPutDone, p.onAskDone
	p.stream.doneFn = p.stream.onDone
	m.OnEndpoint(p.onEndpoint)
	m.Admit(admission(cfg, layer))
	return p, nil
}

// refusedStranger is the code for a module that is not the peer's.
const refusedStranger = 1

// admission decides who may connect to the module of a layer: to a client nobody, and to a server
// its client. The addresses of the client may differ behind a NAT, but a stranger does not know the
// random number in the name of the client's module.
func admission(cfg *Config, layer string) func(btl.Request) btl.Verdict {
	var known []uint64
	for _, o := range cfg.Peer {
		if name, err := frag.ParseName(o.Name); err == nil && o.Layer == layer && cfg.Server {
			known = append(known, name.Incarnation)
		}
	}
	return func(r btl.Request) btl.Verdict {
		if slices.Contains(known, r.Incarnation) {
			return btl.Accept()
		}
		return btl.Refuse(refusedStranger)
	}
}

// onEndpoint handles the events of the connection, which the client opens and the server accepts.
func (p *btlPort) onEndpoint(ep *btl.Endpoint, ev btl.Event, err error) {
	switch {
	case ev == btl.EventConnected && p.ep == nil:
		p.ep = ep
	case ev != btl.EventConnected && p.ep == ep:
		if err == nil {
			err = btl.ErrClosed
		}
		p.err = err
	}
}

func (p *btlPort) offer() Offer {
	limits := p.m.Limits()
	return Offer{
		Layer: plan.LayerBTL, Name: p.m.Name(), RecvCapacity: limits.CreditPackets,
		MTUBytes: limits.MTUBytes, MessageBytesMax: limits.FragmentBytesMax,
	}
}

// connect opens the connection. Both sides get the other's name, but only the client uses it, and
// the server waits for the client.
func (p *btlPort) connect(peer Offer, timeout time.Duration) (err error) {
	if !p.cfg.Server {
		if p.ep, err = p.m.Connect(clock(), peer.Name); err != nil {
			return err
		}
	}
	deadline := clock().Add(timeout)
	for {
		now := clock()
		if err := p.pass(now); err != nil {
			return err
		}
		if p.ep != nil && p.ep.Connected() {
			return nil
		}
		if now >= deadline {
			return fmt.Errorf("%w within %v", btl.ErrUnreachable, timeout)
		}
		p.nap()
	}
}

// pass calls Progress once, and returns the reason if the connection has ended.
func (p *btlPort) pass(now mono.Time) error {
	if _, err := p.m.Progress(now); err != nil {
		return err
	}
	return p.err
}

// nap sleeps until something arrives, for a millisecond at most.
func (p *btlPort) nap() {
	if p.m.Wait(time.Millisecond) != nil {
		time.Sleep(idleNap)
	}
}

// The method idle keeps the connection alive between rounds, and returns within about a
// millisecond.
func (p *btlPort) idle() error {
	if err := p.pass(clock()); err != nil {
		return err
	}
	p.nap()
	return nil
}

func (p *btlPort) facts() Facts {
	limits, config := p.m.Limits(), p.m.Config()
	return Facts{
		MTUBytes: limits.MTUBytes, InjectBytes: p.m.Info().InjectBytes,
		RecvCapacity: limits.CreditPackets, RecvBufferBytes: limits.RecvBufferBytes,
		CreditPackets: limits.CreditPackets, TinyBytes: limits.TinyBytes, Profile: config.Profile,
	}
}

func (p *btlPort) Counters() Counters {
	return countersOf(p.m.Stats())
}

func resentOf(s btl.Stats) uint64 { return s.Retransmits() }

func countersOf(s btl.Stats) Counters {
	c := Counters{
		SegmentsSent: s.SegmentsSent(), Retransmits: s.Retransmits(), Duplicates: s.Duplicates(),
		All: make(map[string]uint64),
	}
	for _, counter := range btl.Counters() {
		c.All[counter.String()] = s.Get(counter)
	}
	return c
}

func (p *btlPort) State() State {
	return State{Path: newPathRecord(p.ep), Fabric: newAttrRecords(p.m.Info().Attrs)}
}

// closeGrace is the longest time that a side waits until the peer has received its close.
const closeGrace = 300 * time.Millisecond

func (p *btlPort) close() (err error) {
	defer func() { err = errors.Join(err, p.m.Close()) }() // also after a panic
	if p.err == nil {
		now := clock()
		deadline := now.Add(closeGrace)
		p.m.Drain(now, deadline)
		for ; !p.m.Drained() && now < deadline; now = clock() {
			if p.pass(now) != nil {
				break
			}
		}
	}
	return nil
}

// Memory implements Layer. The memory of arriving messages belongs to the transport, and is not
// included.
func (p *btlPort) Memory(r *Round) int64 {
	slots, apart := slotsFor(r)
	own := max(cap(p.mem), slotBytes(slots, r.SizeBytes, apart))
	stream := max(cap(p.stream.mem), slotBytes(loadWindow(r), r.LoadBytes, r.Verify))
	return int64(own) + int64(stream) + int64(max(cap(p.place), placeBytes(r)))
}

// Prepare resets the counts of a round, and exposes memory for a test of puts. The transport
// refuses messages longer than those of all rounds so far.
func (p *btlPort) Prepare(r *Round) (handle uint64, err error) {
	if err := p.settle(r); err != nil {
		return 0, err
	}
	p.r = r
	p.flow = flow{windowAt: uint64(r.Window)}
	p.watchdog = watchdog{since: clock()}
	p.messages.resetFor(r)
	p.stream.resetFor(r)
	p.asked = 0
	if handle, err = p.exposeFor(r); err != nil {
		return 0, err
	}
	for tag, h := range p.handlers(r) {
		p.mostBytes[tag] = max(p.mostBytes[tag], arriving(r, tag))
		if err := p.m.HandleUpTo(tag, p.mostBytes[tag], h); err != nil {
			return 0, err
		}
	}
	return handle, p.err
}

// settle waits until all messages of the previous round are acknowledged, because their buffers are
// used again. The peer makes progress while settle waits, unless round r is halted.
func (p *btlPort) settle(r *Round) error {
	p.watchdog = watchdog{since: clock()}
	for p.inFlight+p.stream.inFlight > 0 {
		now := clock()
		if err := p.pass(now); err != nil {
			return err
		}
		if r.Halted.Load() {
			return ErrHalted
		}
		if p.stuck(now) {
			return errStuck
		}
	}
	return nil
}

func (p *btlPort) Client(r *Round) error {
	switch r.Test {
	case plan.TestLat, plan.TestPutLat, plan.TestNotice, plan.TestGetLat, plan.TestAtomicLat:
		return p.latClient(r)
	case plan.TestLatLoad:
		return p.latLoadClient(r)
	case plan.TestPutBW:
		return p.putClient(r)
	case plan.TestGetBW, plan.TestAtomic, plan.TestAtomicPost:
		return p.askClient(r)
	}
	return p.streamClient(r)
}

// Server answers the messages of a round, mostly in the handlers.
func (p *btlPort) Server(r *Round) error {
	watch := startWatch(&p.waiter)
	defer func() { r.Usage = watch.read() }()
	if r.Test == plan.TestPutLat {
		return p.putLatServer(r)
	}
	now := clock()
	for empty := uint(0); !r.over(); {
		n, err := p.m.Progress(now)
		if err != nil {
			return err
		}
		if err := cmp.Or(p.err, p.sendErr); err != nil {
			return err
		}
		if err := p.serveDue(r); err != nil {
			return err
		}
		if empty++; n > 0 || empty%passesPerClock == 0 {
			now = clock()
		}
		if n > 0 {
			p.waiter.busy()
		} else if p.waiter.idle() {
			now = clock()
		}
	}
	return nil
}

// errStuck means that both sides are alive and a message that was sent does not arrive, which would
// be an error of the transport or of this program.
var errStuck = errors.New("no message arrives although the peer answers")

// errStray means that a message of an earlier round has ended in this one, which would be an error
// of this program.
var errStray = errors.New("a message ended that this round did not send")

// stuck reports whether nothing new was sent or delivered for twice the peer time-out. The
// transport itself detects a dead peer, and stuck detects a peer that is alive but makes no
// progress.
func (p *btlPort) stuck(now mono.Time) bool {
	s := p.m.Stats()
	packets, fragments := p.ep.Outstanding()
	mark := s.SegmentsSent() + s.Get(btl.CntRecvPayloadBytes) + s.Get(btl.CntDelivered) +
		s.Get(btl.CntDone) + uint64(packets)<<40 + uint64(fragments)<<52
	return p.watchdog.stuck(mark, now, 2*p.cfg.PeerTimeout())
}

// check returns the reason why the round cannot continue.
func (p *btlPort) check() error {
	switch {
	case p.err != nil:
		return p.err
	case p.sendErr != nil:
		return p.sendErr
	case p.stream.sendErr != nil:
		return p.stream.sendErr
	case p.r.Halted.Load():
		return ErrHalted
	}
	return nil
}
