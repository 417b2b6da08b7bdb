package btl

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/receive"
	"gobtl/btl/internal/snapshot"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
)

// Tag is an active-message number, 0 to TagMax, that selects the handler of a fragment at the peer.
type Tag uint8

// TagMax is the highest tag that applications may use. Higher tags are reserved for the transport.
const TagMax Tag = frag.TagUserMax

// Handler is a function that Progress calls with a received fragment. The slice "data" is valid
// only until the Handler returns. A Handler is allowed to send messages, connect to peers, close
// endpoints and free fragments, but must not call Progress.
type Handler func(ep *Endpoint, tag Tag, data []byte)

// Event is a change of an endpoint's connection.
type Event uint8

// The constants below are the events of an endpoint. Each endpoint gets either EventClosed or
// EventFailed exactly once, as its last event.
const (
	// EventConnected means that the handshake is complete.
	EventConnected = Event(peer.EventConnected)
	// EventClosed means that the connection was closed without an error, by this side (err is nil) or
	// by the peer (ErrPeerClosed).
	EventClosed = Event(peer.EventClosed)
	// EventFailed means that the connection has failed with the error err.
	EventFailed = Event(peer.EventFailed)
)

// Module is an open instance of the transport, with two channels of a fabric and the endpoints of
// its peers. A Module determines the order of the steps in a call of Progress, and calls the
// application's callbacks. Two packages perform the steps of Progress, and call the Module only
// through functions that the Module has given to them:
//
//	rx  --> received packets, until a handler gets the fragment       internal/receive
//	all --> endpoints, and what they share, what is sent, timers,     internal/peer
//	        handshakes, the end of connections, the port
type Module struct {
	all peer.Services // first, so that its fields begin at a page
	rx  receive.Receiver
	cfg Config
	polling
	lifetime

	onEvent   func(ep *Endpoint, ev Event, err error)
	onRoom    func(ep *Endpoint)
	admission func(Request) Verdict // nil accepts every peer
	claimed   [256]bool             // the tag is of a layer, see Hooks.ClaimTag

	name []byte    // announced to peers
	told [2][]byte // addresses that are announced to peers, for command and data

	counters  *stats.Values   // of all
	published snapshot.Values // the counters, for other goroutines
	checker   *peer.Checker   // scratch of Check
}

// The type "lifetime" contains the flags that say whether the module is open, running or closed.
type lifetime struct {
	inProgress bool // Progress or Close is running
	closeAsked bool // a callback has called Close; Progress closes the module at its end
	closed     bool
	driven     atomic.Bool // a driver has called Hooks.TakeOver
}

// Open starts a module on a Domain that was opened with cfg.DomainConfig. After a successful Open,
// the module owns the Domain. If Open returns an error, it has closed the Domain.
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
	if cfg.Random == nil {
		cfg.Random = cryptoRandom
	}
	cfg.Random = numbers.NonZero(cfg.Random)
	m.cfg = cfg
	need := cfg.arenaBuffers(info)
	if arena.Len() < need || arena.Size() < cfg.MTUBytes {
		return fmt.Errorf("%w: domain has %d buffers of %d bytes, needs %d of %d",
			ErrConfig, arena.Len(), arena.Size(), need, cfg.MTUBytes)
	}
	m.counters = m.all.Counters()
	m.published.Init(int(stats.Count) + gaugesLen)
	err = m.all.Open(dom, cfg.forPeers(), &cfg.Rules, cfg.forPort(info), peer.Owner{
		Module: m, NewEndpoint: newEndpoint, NewFragment: newFragment,
		Ask: m.ask, Deadline: m.deadline,
	})
	if errors.Is(err, port.ErrConfig) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err != nil {
		return err
	}
	m.rx.Init(&m.all, cfg.limits.KeptBytesMax)
	return m.openName()
}

// openName chooses the module's random incarnation, and composes the module's name for peers.
func (m *Module) openName() error {
	m.told = [2][]byte{m.all.Port.Command.Name, m.all.Port.Data.Name}
	if m.cfg.Advertise != "" {
		cmd, data, err := parseAddress(&m.all.Port, m.cfg.Advertise)
		if err != nil {
			return fmt.Errorf("%w: advertise: %w", ErrConfig, err)
		}
		m.told = [2][]byte{cmd, data}
	}
	m.all.OpenHandshakes(m.told)
	n := frag.Name{
		Provider:     m.all.Port.WireName(),
		Incarnation:  m.all.Handshakes.Says().Incarnation,
		MTUBytes:     uint16(m.all.Port.Data.MTUBytes),
		CommandBytes: uint16(m.all.Port.Command.MTUBytes),
		Command:      m.told[0],
		Data:         m.told[1],
	}
	name, err := n.Append(nil)
	m.name = name
	return err
}

// Name returns the module's address as opaque bytes, which other modules pass to Connect. Each Open
// of a module results in a different name.
func (m *Module) Name() []byte { return append([]byte(nil), m.name...) }

// Config returns the configuration in use, in which zero fields are replaced by their defaults.
func (m *Module) Config() Config { return m.cfg }

// Info returns the fabric's description of the Domain. The attributes in the Info include the
// present values of the provider's counters, such as datagrams dropped because a buffer was full.
func (m *Module) Info() fabric.Info { return m.all.Port.Dom.Info() }

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

// Limits returns the module's size limits. The limits of packet sizes are lower for a peer with a
// smaller MTU.
func (m *Module) Limits() Limits {
	return Limits{
		FragmentBytesMax: int(m.cfg.FragmentBytesMax),
		SegmentBytes:     segmentRoom(m.all.Port.Data.MTUBytes, frag.KindFrag),
		ChunkBytes:       segmentRoom(m.all.Port.Data.MTUBytes, frag.KindChunk),
		TinyBytes:        segmentRoom(m.all.Port.Command.MTUBytes, frag.KindFrag),
		CreditPackets:    m.all.Credits.Capacity(),
		RecvBufferBytes:  m.all.Port.Data.Caps.RecvBufferBytes,
		MTUBytes:         m.all.Port.Data.MTUBytes,
	}
}

// Handle registers the handler h for a tag, or removes the tag's handler if h is nil. The module
// refuses a fragment whose tag has no handler. The sender of a refused fragment gets ErrNoHandler
// as the argument of OnDone, or of the function given to Flush if Send had returned Done. Handlers
// should be registered before peers connect. If the handler of a tag changes while the packets of a
// fragment arrive, the module might refuse the later packets. Handle replaces an earlier handler of
// the tag. Handle returns ErrTag for a tag above TagMax, and ErrTagTaken for the tag of a layer
// (Hooks.ClaimTag).
func (m *Module) Handle(tag Tag, h Handler) error {
	if tag > TagMax {
		return fmt.Errorf("%w: %d (the last is %d)", ErrTag, tag, TagMax)
	}
	if m.claimed[tag] {
		return fmt.Errorf("%w: a layer of this module has tag %d", ErrTagTaken, tag)
	}
	var inner receive.Handler
	if h != nil {
		inner = func(ep *peer.Endpoint, tag uint8, data []byte) { h(endpointOf(ep), Tag(tag), data) }
	}
	m.rx.SetHandler(uint8(tag), inner)
	return nil
}

// HandleUpTo registers a handler like Handle, for fragments of at most mostBytes, where 0 means no
// limit. When the first packet of a fragment arrives that needs several packets and exceeds
// mostBytes, the module refuses the fragment without allocating memory for it. The sender of a
// fragment that exceeds mostBytes gets ErrUnwanted. A fragment of at most twice Limits.SegmentBytes
// might be delivered although it exceeds mostBytes, if the sender has put its end into a shared
// packet (Config.PackBytes).
func (m *Module) HandleUpTo(tag Tag, mostBytes uint32, h Handler) error {
	if err := m.Handle(tag, h); err != nil {
		return err
	}
	m.rx.Limit(uint8(tag), mostBytes)
	return nil
}

// OnEndpoint registers a function that Progress calls for every Event of every endpoint, including
// endpoints that peers open.
func (m *Module) OnEndpoint(fn func(ep *Endpoint, ev Event, err error)) { m.onEvent = fn }

// Stats returns the counters that Progress has published, which are at most a millisecond old.
// Stats is safe for concurrent use.
func (m *Module) Stats() Stats { return load(&m.published) }

// Wait sleeps until a packet arrives, Wake is called, or the timeout has passed. A negative timeout
// means no limit. Wait can return although no packet has arrived, Wake was not called, and the
// timeout has not passed. Progress should be called before and after Wait. If Wait returns after
// the module's Deadline, timers of the module expire late. Wait returns fabric.ErrNotSupported if
// the fabric does not implement fabric.Waiter.
func (m *Module) Wait(timeout time.Duration) error {
	w, ok := m.all.Port.Dom.(fabric.Waiter)
	if !ok {
		return fabric.ErrNotSupported
	}
	m.publishChanges()
	return w.Wait(timeout)
}

// Wake makes a Wait in progress return. If Wake is called while no Wait is in progress, the next
// Wait returns at once. Wake is safe for concurrent use.
func (m *Module) Wake() {
	if w, ok := m.all.Port.Dom.(fabric.Waiter); ok {
		w.Wake()
	}
}

// Drain begins to close every endpoint, as Endpoint.Close does. After Drain, the module opens and
// accepts no new endpoints. The program must call Progress until Drained returns true. A fragment
// that is not delivered before the time "until" ends with ErrClosed. The argument "now" of Drain is
// the present time.
func (m *Module) Drain(now, until Time) {
	m.all.At(now)
	m.all.Drain(until)
	for _, ep := range m.all.Peers.All() {
		if ep != nil {
			m.all.Endings.Close(ep, now, frag.ByeClosed)
		}
	}
}

// Drained reports whether all endpoints have ended and the command and data channels have no packet
// left to post. Endpoints that linger after the peer's close, to repeat an ACK, count as ended.
func (m *Module) Drained() bool { return m.all.Drained() }

// Close ends the module at once. During Close, every incomplete send ends with ErrClosed, every
// open endpoint gets EventClosed, and the Domain is closed. If a callback calls Close, the module
// is closed at the end of the current call of Progress. Further calls of Close do nothing.
func (m *Module) Close() error {
	if m.closed {
		return nil
	}
	if m.inProgress {
		m.closeAsked = true
		return nil
	}
	m.rx.FinishDeferred()
	m.inProgress = true // no callback below may call Progress
	m.all.Shut()        // no callback may connect
	m.all.EndAll()
	m.callOut()
	m.closed = true
	m.all.Frags.Payloads.Close()
	m.rx.Arrivals.CopyOut()
	m.rx.Keeping.Close()
	err := m.all.Port.Dom.Close()
	m.all.Closed()
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
