package btl

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/owed"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Tag selects the handler of a fragment at the peer: an active-message number, 0 to TagMax.
type Tag uint8

// TagMax is the last tag that callers may use; those above belong to the transport.
const TagMax Tag = frag.TagUserMax

// Handler receives a fragment. data is valid only during the call. A handler may send, connect,
// close and free, but not call Progress.
type Handler func(ep *Endpoint, tag Tag, data []byte)

// Event is a change of an endpoint's connection.
type Event uint8

// The events. Closed and Failed end an endpoint; one of them comes exactly once.
const (
	EventConnected Event = iota // the handshake is done
	EventClosed                 // closed in order, by this side (err nil) or the peer (ErrPeerClosed)
	EventFailed                 // lost; err says why
)

// Module is one open transport: a port of a fabric, and the endpoints of its peers. It is composed
// of parts. Each has its own state and checks, in its own file:
//
//	lifetime       how far it is on its way from Open to Close       module.go
//	port           a Domain, its memory, two channels, addresses     internal/port
//	clock          what time it is                                   clock.go
//	buffers        send buffers, and who has them                    buffers.go
//	recovery       what is in flight, and is lost: see reliability   timers.go resend.go link_seq.go
//	credits        what peers may send, shared out: see reliability  egress.go timers.go
//	overcommit     more of them for long paths                       internal/path path_host.go
//	pool           memory of fragments that arrive in chunks: frag   link.go
//	peers          the table of connections                          internal/meet admission.go
//	timers         when something is to be done for a peer           internal/liveness timers.go
//	face           what others are told; handshakes                 internal/meet handshake_host.go
//	scheduler      whose turn it is to send                          sched.go
//	acks           who owes an ACK, the first due in front           internal/owed
//	descriptors    fragments, lent to the caller; registered memory  descriptors.go internal/regcache
//	outbox         what the owner is to be told                      outbox.go
//	remote         exposed memory, operations there and on peers'    internal/remote
//	polling        which channel a pass polls, and how               polling.go
//	keeping        what handlers have kept of what arrived           keep.go
//	deferred       a fast receive that is not booked yet             ingress.go
//	landing        where the provider puts what arrives next         landing.go
//	parts          packets that arrive in slices                     aside.go
//	counters       what is counted                                   stats.go
type Module struct {
	cfg   Config
	rules reliability.Rules
	port  port.Port
	clock
	polling
	lifetime

	recovery *reliability.Recovery
	buffers
	credits *reliability.Credits
	overcommit
	peers peerTable
	peerTimers
	sched  scheduler
	acks   owed.Ledger[*Endpoint]
	frags  descriptors
	outbox outbox

	reception
	remote remote.Service[*Fragment]
	pool   *frag.Pool

	face

	deferred deferredReceive
	landing  landing
	scratch

	counters
	checker *checker // scratch of Check
}

// scratch is temporary memory for the duration of a call.
type scratch struct {
	done        []reliability.Token // of acknowledge
	pieces      arrivedPieces       // of the pack that is being received
	refusedTags tagSet              // of the pack that is being received: those without a handler
	rxVia       via                 // channel of the packet that is being received
	sack        frag.Sack           // of writeSack and onSack
	sackWords   [frag.WindowMax / 64]uint64
}

// reception is the handlers of arriving fragments, by tag, and the state of incomplete packets.
type reception struct {
	handlers  [256]Handler
	mostBytes [256]uint32 // of a fragment in chunks; 0: any
	keeping   keeping     // what handlers have kept of what has arrived
	parts     partial
}

// face is what others are told of a module, and its policy for incoming connections.
type face struct {
	name       []byte
	told       [2][]byte                 // the addresses that others are told, of command and data
	seen       [fabric.MaxNameBytes]byte // where the packet came from that is being looked at
	admission  func(Request) Verdict     // nil lets everybody in
	handshakes meet.Handshakes[*Endpoint]
}

// lifetime is the stage of a module between Open and Close.
type lifetime struct {
	inProgress bool // a pass is under way, or the end
	closeAsked bool // by a callback: when the pass ends
	closed     bool
	draining   bool // no endpoint is to be opened any more
	drainUntil Time
}

// Open starts a module on a Domain that was opened with cfg.DomainConfig. The module owns the
// Domain from then on, also when Open fails.
func Open(dom fabric.Domain, cfg Config) (*Module, error) {
	m := new(Module)
	if err := m.open(dom, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("btl: open: %w", err), dom.Close())
	}
	return m, nil
}

func (m *Module) open(dom fabric.Domain, cfg Config) error {
	info, arena := dom.Info(), dom.Arena()
	cfg, err := cfg.WithDefaults(info)
	if err != nil {
		return err
	}
	m.cfg, m.rules = cfg, cfg.Rules
	const share = 8
	m.pauseMin = min(cfg.PeerTimeout, cfg.HandshakeTimeout, cfg.CloseTimeout) / share
	if m.cfg.Random == nil {
		m.cfg.Random = cryptoRandom
	}
	depth := cfg.recvDepth(info)
	need := cfg.SendBuffers + port.ControlBuffers + 2*depth + max(cfg.KeptPackets, 0)
	if arena.Len() < need || arena.Size() < cfg.MTUBytes {
		return fmt.Errorf("%w: domain has %d buffers of %d bytes, needs %d of %d",
			ErrConfig, arena.Len(), arena.Size(), need, cfg.MTUBytes)
	}
	if err := m.openTables(dom); err != nil {
		return err
	}
	if err := m.openPort(dom, depth); err != nil {
		return err
	}
	bulk := &m.port.Data
	if m.port.Reliable() { // counted links have their chunks come by the other one
		bulk = &m.port.Command
	}
	if lander, ok := bulk.Endpoint().(fabric.Lander); ok && bulk.Caps().Landing {
		m.landing = landing{lander: lander, on: bulk, guessMin: guessBytesMin}
	}
	// An eighth of the receive room is left to ACKs and handshakes, which need no credit.
	room := min(m.port.Command.Caps().RecvCapacity, m.port.Data.Caps().RecvCapacity)
	m.credits = reliability.NewCredits(room - room/8)
	m.openSmall()
	m.openOvercommit()
	return m.openName()
}

// openSmall measures the receive room that a small datagram takes, relative to a full one. Half of
// the credits are counted in packets and half in bytes.
func (m *Module) openSmall() {
	cmd, data := m.port.Command.Caps(), m.port.Data.Caps()
	fixed := max(cmd.RecvFixedBytes, data.RecvFixedBytes)
	full := min(cmd.RecvFullBytes, data.RecvFullBytes)
	if min(cmd.RecvFixedBytes, data.RecvFixedBytes) > 0 && !m.port.Reliable() {
		m.credits.Small(full/2/fixed, full/2/2)
	}
}

// openPort opens the two channels.
func (m *Module) openPort(dom fabric.Domain, depth int) error {
	cfg := &m.cfg
	err := m.port.Open(dom, port.Config{
		SendBuffers: cfg.SendBuffers, RecvDepth: depth, Spare: max(cfg.KeptPackets, 0),
		TxDepth: cfg.TxDepth, RecvBufferBytes: cfg.RecvBufferBytes,
		CommandBytes: cfg.TinyBytes, DataBytes: cfg.MTUBytes,
		PollBatch: cfg.PollBatch, IdlePollEvery: cfg.IdlePollEvery,
		Reliable: cfg.Reliability == reliabilityAuto,
	})
	if errors.Is(err, port.ErrConfig) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return err
}

// openTables allocates everything that is sized by the configuration.
func (m *Module) openTables(dom fabric.Domain) (err error) {
	cfg := &m.cfg
	if m.recovery, err = reliability.NewRecovery(cfg.SendBuffers, cfg.PeersMax, m.rules); err != nil {
		return err
	}
	limits := meet.Limits{
		PerAddress: cfg.PeersPerAddress, PerHost: cfg.PeersPerHost, HalfOpen: cfg.HalfOpenMax,
	}
	hosts, _ := dom.(fabric.Addresser)
	m.peers.Init(endOf, cfg.PeersMax, hosts, limits)
	life := liveness.Rules{PeerTimeout: cfg.PeerTimeout, KeepAlive: cfg.KeepAlive}
	err = m.watches.Init(watchHost{m}, watchOf, cfg.PeersMax, life, cfg.CloseTimeout)
	if err != nil {
		return err
	}
	if err = m.paths.Init(pathHost{m}, pathOf, cfg.PeersMax); err != nil {
		return err
	}
	m.pool, err = frag.NewPool(frag.PoolConfig{
		FragBytesMax: cfg.FragmentBytesMax,
		BytesMax:     cfg.ReassemblyBytesMax,
		KeepBytes:    cfg.ReassemblyKeepBytes,
	})
	if err != nil {
		return err
	}
	m.parts.pool = frag.NewPartPool(partsBytesMax)
	m.buffers.init(cfg.SendBuffers)
	m.source.Init(m.cfg.Random, m.rules.WithholdEvery)
	m.done = make([]reliability.Token, 0, min(cfg.Rules.WindowPackets, reliability.WindowDefault))
	m.remote.Init(cfg.RegionsMax)
	m.frags.registered.Init(dom, cfg.RegistrationsKept)
	return nil
}

// openName draws the incarnation and writes the name that peers connect to.
func (m *Module) openName() error {
	m.told = [2][]byte{m.port.Command.Name(), m.port.Data.Name()}
	if m.cfg.Advertise != "" {
		cmd, data, err := m.parseAddress(m.cfg.Advertise)
		if err != nil {
			return fmt.Errorf("%w: advertise: %w", ErrConfig, err)
		}
		m.told = [2][]byte{cmd, data}
	}
	m.openHandshakes()
	n := frag.Name{
		Provider:     m.port.WireName(),
		Incarnation:  m.handshakes.Says().Incarnation,
		MTUBytes:     uint16(m.port.Data.MTUBytes()),
		CommandBytes: uint16(m.port.Command.MTUBytes()),
		Command:      m.told[0],
		Data:         m.told[1],
	}
	name, err := n.Append(nil)
	m.name = name
	return err
}

// Name returns the module's address as opaque bytes, for peers to get out of band and pass to
// Connect. It changes with every Open.
func (m *Module) Name() []byte { return append([]byte(nil), m.name...) }

// Config returns the configuration in force, with defaults filled in.
func (m *Module) Config() Config { return m.cfg }

// Info returns the fabric's description of the domain in use. Its attributes are current, and
// include the provider's counters: errors that it survived, datagrams that it dropped for lack of
// room.
func (m *Module) Info() fabric.Info { return m.port.Dom.Info() }

// Limits are the size limits in force for a module.
type Limits struct {
	FragmentBytesMax int // largest fragment
	SegmentBytes     int // largest fragment that travels as one packet
	ChunkBytes       int // payload of each packet of a larger one
	TinyBytes        int // largest fragment that takes the command channel
	CreditPackets    int // packets that all peers together may have on their way here
	RecvBufferBytes  int // kernel receive buffer of the data channel, 0 if it has none
	MTUBytes         int // datagram size of the data channel
}

// Limits returns the module's sizes; for a peer with a smaller MTU some are smaller.
func (m *Module) Limits() Limits {
	return Limits{
		FragmentBytesMax: int(m.cfg.FragmentBytesMax),
		SegmentBytes:     segmentRoom(m.port.Data.MTUBytes(), frag.KindFrag),
		ChunkBytes:       segmentRoom(m.port.Data.MTUBytes(), frag.KindChunk),
		TinyBytes:        segmentRoom(m.port.Command.MTUBytes(), frag.KindFrag),
		CreditPackets:    m.credits.Capacity(),
		RecvBufferBytes:  m.port.Data.Caps().RecvBufferBytes,
		MTUBytes:         m.port.Data.MTUBytes(),
	}
}

// Handle registers the handler of a tag; nil removes it. A fragment whose tag has no handler is
// refused: its sender gets ErrNoHandler, unless Send returned Done. Register handlers before peers
// connect: a fragment of several packets whose handler changes while it arrives may be refused in
// part.
func (m *Module) Handle(tag Tag, h Handler) error {
	if tag > TagMax {
		return fmt.Errorf("%w: %d (the last is %d)", ErrTag, tag, TagMax)
	}
	m.handlers[tag], m.mostBytes[tag] = h, 0
	return nil
}

// HandleUpTo is Handle for fragments of up to mostBytes; 0 is no bound. A longer fragment in chunks
// is refused at its first chunk, before memory is allocated for it: its send ends with ErrUnwanted.
// A fragment of up to two packets (Limits.SegmentBytes) may exceed the bound and still be
// delivered, if it shares its packets with others (Config.MixBytes of the sender).
func (m *Module) HandleUpTo(tag Tag, mostBytes uint32, h Handler) error {
	if err := m.Handle(tag, h); err != nil {
		return err
	}
	m.mostBytes[tag] = mostBytes
	return nil
}

// OnEndpoint registers a function for the events of endpoints, including those that peers open:
// connected, closed, failed. It is called from Progress.
func (m *Module) OnEndpoint(fn func(ep *Endpoint, ev Event, err error)) { m.outbox.onEvent = fn }

// Stats returns the counters as of the latest pass, at most a millisecond of progress old. Any
// goroutine may call it.
func (m *Module) Stats() Stats { return m.pub.load() }

// Wait sleeps until a packet may have arrived, Wake is called, or the timeout is over (negative: no
// limit). It may return early. Call Progress before and after Wait; a timeout beyond the Deadline
// makes timers late. Without a fabric.Waiter it returns fabric.ErrNotSupported.
func (m *Module) Wait(timeout time.Duration) error {
	w, ok := m.port.Dom.(fabric.Waiter)
	if !ok {
		return fabric.ErrNotSupported
	}
	if m.dirty {
		m.publish()
	}
	return w.Wait(timeout)
}

// Wake ends a Wait in progress, or the next one. Any goroutine may call it.
func (m *Module) Wake() {
	if w, ok := m.port.Dom.(fabric.Waiter); ok {
		w.Wake()
	}
}

// Drain begins an orderly close of every endpoint, and accepts no new one. Call Progress until
// Drained; fragments not delivered by the instant until fail with ErrClosed. now is the present
// instant.
func (m *Module) Drain(now, until Time) {
	m.at(now)
	m.draining, m.drainUntil = true, until
	for _, ep := range m.peers.All() {
		if ep != nil {
			ep.Close(now)
		}
	}
}

// Drained says whether all endpoints are gone, except those that their peers have closed, which
// only linger to repeat an ACK, and whether both channels have no packet left to post.
func (m *Module) Drained() bool {
	if m.port.Pending() {
		return false
	}
	for _, ep := range m.peers.All() {
		if ep != nil && (ep.id.State() != stateLingering || ep.rcv.Owes()) {
			return false
		}
	}
	return true
}

// Close ends the module at once: every unfinished send completes with ErrClosed, endpoints get
// their event, the Domain is closed. If called from a callback, it takes effect when the pass ends.
// Further calls do nothing.
func (m *Module) Close() error {
	if m.closed {
		return nil
	}
	if m.inProgress {
		m.closeAsked = true
		return nil
	}
	m.finishDeferred()
	m.inProgress = true // callbacks run below; none of them may start a pass
	m.draining = true   // nor connect
	for _, ep := range m.peers.All() {
		if ep != nil {
			m.end(ep, EventClosed, ErrClosed)
		}
	}
	m.callOut()
	m.closed = true
	m.keeping.copyOut(&m.port.Keeper)
	m.port.Keeper.Outlive()
	err := m.port.Dom.Close()
	// The fabric no longer uses the callers' memory: fragments that waited only for that end too.
	for t := range m.segs {
		if f := m.segs[t].frag; f != nil {
			m.segs[t] = sendSegment{}
			m.segEnded(f)
		}
	}
	m.callOut()
	m.publish()
	m.inProgress = false
	return err
}
