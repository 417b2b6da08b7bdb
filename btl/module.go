package btl

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"gobtl/btl/internal/clock"
	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/keep"
	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/owed"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Tag is an active-message number, 0 to TagMax, that selects the handler of a fragment at the peer.
type Tag uint8

// TagMax is the highest tag that applications may use. Higher tags are reserved for the transport.
const TagMax Tag = frag.TagUserMax

// Handler is called with a received fragment. The slice data is valid only during the call. A
// handler may send, connect, close and free, but must not call Progress.
type Handler func(ep *Endpoint, tag Tag, data []byte)

// Event is a change of an endpoint's connection.
type Event uint8

// The constants below are the events of an endpoint. Each endpoint gets either EventClosed or
// EventFailed exactly once, as its last event.
const (
	EventConnected Event = iota // the handshake is done
	EventClosed                 // closed in order, by this side (err nil) or the peer (ErrPeerClosed)
	EventFailed                 // the connection has failed with the error err
)

// Module is an open transport, with a port of a fabric and the endpoints of its peers. Each part
// of a module has its own state and checks, in its own file.
//
//	lifetime       state between Open and Close                   module.go
//	port           a Domain, its memory, two channels, addresses  internal/port
//	clock          the module's time                              internal/clock clock.go
//	buffers        send buffers and their owners                  buffers.go
//	recovery       packets in flight and lost (reliability)       resend.go link_seq.go
//	credits        what peers may send (reliability)              write_headers.go end.go
//	overcommit     further credits for long paths                 internal/path path_host.go
//	pool           memory for chunked fragments (frag)            link.go
//	peers          the table of connections                       internal/meet admission.go
//	timers         timers of the endpoints                        internal/liveness timers.go
//	face           name told to peers, handshakes                 internal/meet handshake_host.go
//	scheduler      turns of the endpoints to send                 internal/sched sched.go
//	acks           endpoints that owe an ACK, by due time         internal/owed
//	descriptors    fragment descriptors                           descriptors.go
//	payloads       memory of fragments, registered or not         internal/payload internal/regcache
//	outbox         events and completions for the owner           completions.go
//	remote         exposed memory, remote memory operations       internal/remote
//	polling        which channel a pass polls, and how            polling.go
//	keeping        received data kept by handlers                 internal/keep keep.go
//	deferred       fast receive not yet accounted for             read_headers.go
//	landing        memory where the provider puts payloads        internal/landing landing.go
//	parts          packets that arrive in slices                  aside.go
//	counters       counters of Stats                              stats.go
type Module struct {
	cfg   Config
	rules reliability.Rules
	port  port.Port
	clock clock.Clock
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
	landing  landing.Plan[*Endpoint]
	scratch

	counters
	checker *checker // scratch of Check
}

// scratch is temporary memory that is used only during a call.
type scratch struct {
	done        []reliability.Token // of acknowledge
	pieces      inbound.Pieces      // parts of large fragments in the Pack that is being received
	refusedTags inbound.Tags        // tags without a handler in the Pack that is being received
	rxVia       via                 // channel of the packet that is being received
	sack        frag.Sack           // of writeSack and onSack
	sackWords   [frag.WindowMax / 64]uint64
}

// reception has the handlers of received fragments, by tag, and the state of incomplete packets.
type reception struct {
	handlers  [256]Handler
	mostBytes [256]uint32 // largest fragment in chunks; 0: no limit
	claimed   [256]bool   // the tag is of a layer, see Hooks.ClaimTag
	keeping   keep.Store  // received data that handlers have kept
	arrivals  keep.Queue[*Endpoint]
	parts     partial
}

// face holds the addresses and the name of a module that peers are told, and the policy for
// incoming connections.
type face struct {
	name       []byte
	told       [2][]byte                 // addresses that peers are told, for command and data
	seen       [fabric.MaxNameBytes]byte // source of the packet that is being processed
	admission  func(Request) Verdict     // nil accepts every peer
	handshakes meet.Handshakes[*Endpoint]
	shaking    struct { // the packet of a handshake that is being processed
		head  frag.Header
		hello frag.Hello
	}
}

// lifetime is the stage of a module between Open and Close.
type lifetime struct {
	inProgress bool // Progress or Close is running
	closeAsked bool // by a callback, for the end of this call of Progress
	closed     bool
	draining   bool        // no new endpoints are accepted
	driven     atomic.Bool // a driver has called Hooks.TakeOver
	drainUntil Time
}

// Open starts a module on a Domain that was opened with cfg.DomainConfig. The module owns
// the Domain after a successful call of Open. If Open returns an error, Open has closed the
// Domain.
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
	m.clock.Init(min(cfg.PeerTimeout, cfg.HandshakeTimeout, cfg.CloseTimeout) / share)
	if cfg.Random == nil {
		cfg.Random = cryptoRandom
	}
	m.cfg.Random = numbers.NonZero(cfg.Random)
	need := cfg.arenaBuffers(info)
	if arena.Len() < need || arena.Size() < cfg.MTUBytes {
		return fmt.Errorf("%w: domain has %d buffers of %d bytes, needs %d of %d",
			ErrConfig, arena.Len(), arena.Size(), need, cfg.MTUBytes)
	}
	if err := m.openTables(dom); err != nil {
		return err
	}
	if err := m.openPort(dom); err != nil {
		return err
	}
	m.frags.payloads.Init(dom, m.port.Data.Caps(), cfg.RegistrationsKept)
	m.keeping.Init(&m.port, cfg.limits.KeptBytesMax)
	bulk := &m.port.Data
	if m.port.Reliable() { // counted links carry chunks on the command channel
		bulk = &m.port.Command
	}
	if lander, ok := bulk.Endpoint().(fabric.Lander); ok && bulk.Caps().Landing {
		m.landing.Init(bulk, lander, &m.port.Arena, landing.GuessBytesMin)
	}
	room := min(m.port.Command.Caps().RecvCapacity, m.port.Data.Caps().RecvCapacity)
	m.credits = reliability.NewCredits(room - room/8)
	m.openSmall()
	m.openOvercommit()
	return m.openName()
}

// openSmall tells the credits how many small datagrams use as much of the kernel's receive buffer
// as a datagram of full size.
func (m *Module) openSmall() {
	cmd, data := m.port.Command.Caps(), m.port.Data.Caps()
	fixed := max(cmd.RecvFixedBytes, data.RecvFixedBytes)
	full := min(cmd.RecvFullBytes, data.RecvFullBytes)
	if min(cmd.RecvFixedBytes, data.RecvFixedBytes) > 0 && !m.port.Reliable() {
		m.credits.Small(full/2/fixed, full/2/2)
	}
}

// openPort opens the command and the data channel.
func (m *Module) openPort(dom fabric.Domain) error {
	cfg := &m.cfg
	command, data := cfg.recvDepths(dom.Info())
	err := m.port.Open(dom, port.Config{
		SendBuffers: cfg.SendBuffers, CommandDepth: command, RecvDepth: data, TxDepth: cfg.TxDepth,
		Spare: max(cfg.KeptPackets, 0), RecvBufferBytes: cfg.RecvBufferBytes,
		CommandBytes: cfg.TinyBytes, DataBytes: cfg.MTUBytes,
		PollBatch: cfg.limits.PollBatch, IdlePollEvery: cfg.limits.IdlePollEvery,
		Reliable: cfg.Reliability == reliabilityAuto,
	})
	if errors.Is(err, port.ErrConfig) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return err
}

func (m *Module) openTables(dom fabric.Domain) (err error) {
	cfg := &m.cfg
	if m.recovery, err = reliability.NewRecovery(cfg.SendBuffers, cfg.PeersMax, m.rules); err != nil {
		return err
	}
	limits := meet.Limits{
		PerAddress: cfg.limits.PeersPerAddress, PerHost: cfg.PeersPerHost,
		HalfOpen: cfg.limits.HalfOpenMax,
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
		KeepBytes:    cfg.limits.ReassemblyKeepBytes,
	})
	if err != nil {
		return err
	}
	m.parts.pool = frag.NewPartPool(partsBytesMax)
	m.buffers.init(cfg.SendBuffers)
	m.pub.Init(int(numCounters) + gaugesLen)
	m.source.Init(m.cfg.Random, m.rules.WithholdEvery)
	m.done = make([]reliability.Token, 0, min(cfg.Rules.WindowPackets, reliability.WindowDefault))
	m.remote.Init(cfg.RegionsMax)
	m.arrivals.Init(&m.keeping, keep.BoundsMax())
	return nil
}

// openName starts the handshakes, which draw the module's incarnation, and composes the module's
// name for peers.
func (m *Module) openName() error {
	m.told = [2][]byte{m.port.Command.Name(), m.port.Data.Name()}
	if m.cfg.Advertise != "" {
		cmd, data, err := parseAddress(&m.port, m.cfg.Advertise)
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

// Name returns the module's address as opaque bytes, which the application passes to Connect of its
// peers. The name is different after every Open.
func (m *Module) Name() []byte { return append([]byte(nil), m.name...) }

// Config returns the configuration in use, with all defaults.
func (m *Module) Config() Config { return m.cfg }

// Info returns the fabric's description of the Domain. The attributes in the Info include the
// present counters of the provider, such as the number of datagrams dropped for lack of room.
func (m *Module) Info() fabric.Info { return m.port.Dom.Info() }

// Limits holds the size limits of a module.
type Limits struct {
	FragmentBytesMax int // largest fragment
	SegmentBytes     int // largest fragment that travels as one packet
	ChunkBytes       int // payload of each packet of a larger fragment
	TinyBytes        int // largest fragment that takes the command channel
	CreditPackets    int // packets that all peers together may have in flight to this side
	RecvBufferBytes  int // kernel receive buffer of the data channel, 0 if it has none
	MTUBytes         int // datagram size of the data channel
}

// Limits returns the module's size limits. For a peer whose MTU is smaller than this module's MTU,
// some limits are smaller.
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

// Handle registers the handler of a tag, and nil removes the handler. A fragment whose tag
// has no handler is refused. The sender of a refused fragment gets ErrNoHandler from
// OnDone, or from Flush if Send returned Done. Handlers should be registered before peers
// connect. If the handler of a tag changes while a fragment of several packets arrives, a
// part of the fragment may be refused. Handle replaces an earlier handler of the tag. Handle
// returns ErrTag for a tag above TagMax, and ErrTagTaken for the tag of a layer (Hooks.ClaimTag).
func (m *Module) Handle(tag Tag, h Handler) error {
	if tag > TagMax {
		return fmt.Errorf("%w: %d (the last is %d)", ErrTag, tag, TagMax)
	}
	if m.claimed[tag] {
		return fmt.Errorf("%w: a layer of this module has tag %d", ErrTagTaken, tag)
	}
	m.handlers[tag], m.mostBytes[tag] = h, 0
	return nil
}

// HandleUpTo registers a handler like Handle, for fragments of up to mostBytes, where 0 means no
// limit. A chunked fragment above mostBytes is refused at its first chunk, before memory is
// allocated for the fragment. The sender gets ErrUnwanted. A fragment of up to two packets
// (Limits.SegmentBytes) may be delivered above the limit if the sender puts the ends of
// fragments into shared packets (Config.PackBytes).
func (m *Module) HandleUpTo(tag Tag, mostBytes uint32, h Handler) error {
	if err := m.Handle(tag, h); err != nil {
		return err
	}
	m.mostBytes[tag] = mostBytes
	return nil
}

// OnEndpoint registers a function that Progress calls for every Event of every endpoint, including
// endpoints that peers open.
func (m *Module) OnEndpoint(fn func(ep *Endpoint, ev Event, err error)) { m.outbox.onEvent = fn }

// Stats returns the counters as published by Progress, at most a millisecond ago. Any goroutine may
// call Stats.
func (m *Module) Stats() Stats { return m.counters.load() }

// Wait sleeps until a packet may have arrived, Wake is called, or the timeout has passed. A
// negative timeout means no limit. Wait may return early. Progress should be called before and
// after Wait. If the timeout exceeds the module's Deadline, timers are late. Wait returns
// fabric.ErrNotSupported if the fabric does not implement fabric.Waiter.
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

// Wake ends a Wait in progress, or else the next Wait. Any goroutine may call Wake.
func (m *Module) Wake() {
	if w, ok := m.port.Dom.(fabric.Waiter); ok {
		w.Wake()
	}
}

// Drain begins to close every endpoint in order. After Drain, the module opens and accepts
// no new endpoints. After Drain, Progress must be called until Drained returns true. A
// fragment that is not delivered by the given time until ends with ErrClosed. The argument
// now of Drain is the present time.
func (m *Module) Drain(now, until Time) {
	m.at(now)
	m.draining, m.drainUntil = true, until
	for _, ep := range m.peers.All() {
		if ep != nil {
			ep.Close(now)
		}
	}
}

// Drained reports whether all endpoints have ended and both channels have no packet left to post.
// Endpoints that linger after the peer's close, to repeat an ACK, count as ended.
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

// Close ends the module at once. On Close, every incomplete send ends with ErrClosed, every
// open endpoint gets EventClosed, and the Domain is closed. In a callback, Close takes
// effect when the present call of Progress ends. Further calls of Close do nothing.
func (m *Module) Close() error {
	if m.closed {
		return nil
	}
	if m.inProgress {
		m.closeAsked = true
		return nil
	}
	m.finishDeferred()
	m.inProgress = true // no callback below may call Progress
	m.draining = true   // no callback may connect
	for _, ep := range m.peers.All() {
		if ep != nil {
			m.end(ep, EventClosed, ErrClosed)
		}
	}
	m.callOut()
	m.closed = true
	m.frags.payloads.Close()
	m.arrivals.CopyOut()
	m.keeping.Close()
	err := m.port.Dom.Close()
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

// cryptoRandom is the default of Config.Random.
func cryptoRandom() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}
