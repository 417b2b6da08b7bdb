package peer

import (
	"time"

	"gobtl/btl/internal/clock"
	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/limits"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Config contains the settings of a module that its endpoints use. The settings of loss recovery
// are in Services.Rules.
type Config struct {
	Limits limits.Limits

	SendBuffers, PackBytes, FragmentsMax int
	PeersMax, PeersPerHost               int
	RegionsMax                           int
	FragmentBytesMax                     uint32
	ReassemblyBytesMax                   int64
	PeerTimeout, KeepAlive, Away         time.Duration
	HandshakeTimeout, CloseTimeout       time.Duration
	Label                                string
	Random                               func() uint64 // never 0
}

// Owner contains those functions of the module (package btl) that package peer calls.
type Owner struct {
	Module      any              // the module
	NewEndpoint func() *Endpoint // makes an endpoint, as a part of the owner's endpoint
	NewFragment func() *Fragment // makes a fragment, as a part of the owner's fragment
	// Ask decides on a connection request. If the argument id of Ask is not 0, the application can
	// keep the request and decide on it later.
	Ask func(hello *frag.Hello, id uint64) meet.Answer
	// Deadline returns the time by which the next call of the module's Progress is necessary.
	Deadline func() mono.Time
}

// Services contains the state that all endpoints of a module share. The list below names the files
// of each part, without ".go":
//
//	Sender      which endpoint sends what next   send flow requeue chunk_backoff remote_answer
//	                                             remote_notice
//	Packs       several fragments in one packet  pack mix
//	Links       packets get numbers and timers   link link_seq link_counted
//	Writer      headers and control packets      write_headers write_path
//	Buffers     send buffers                     buffers batches
//	Sent        packets in flight                sent resend
//	Acks        owed ACKs                        acks_send
//	Flushes     calls of Flush and Fence         flush
//	Frags       fragments, and their memory      descriptors fragment vector gather remote
//	                                             remote_ask
//	Endings     how endpoints end                end bye shed region
//	Outbox      what the owner is told           outbox room
//	Timers      timers of the endpoints          expire
//	Overcommit  further credits for long paths   path_host
//	Rest        when a pass may only poll        rest
//	Sched       turns of the endpoints           sched
//	(hosts)     access of meet, liveness, path   handshake_host write_hello watch_host path_host
//	(checks)    checks of the whole state        checker check check_idle
//
// Most parts embed a pointer to Services, through which one part calls the methods of a different
// part. The fields that each message uses are within the first 4 KiB of Services, because a
// processor can delay a read until a previous write is complete if their addresses differ by a
// multiple of 4 KiB.
type Services struct {
	Clock clock.Clock
	counting
	parts
	Recovery *reliability.Recovery // packets in flight and lost
	Credits  *reliability.Credits  // what peers may send
	Sched    Scheduler             // turns of the endpoints to send
	Peers    peerTable             // the table of connections
	Port     port.Port

	Config     Config
	Rules      reliability.Rules // of loss recovery and acknowledgements
	owner      Owner
	Pool       *frag.Pool // memory for chunked fragments
	Remote     remote.Service[*Fragment]
	Handshakes meet.Handshakes[*Endpoint]
	Writer     Writer
	closing
}

// The type "parts" contains the parts of Services, each with its own state.
type parts struct {
	Rest       Rest
	Sender     Sender
	Packs      Packs
	Links      Links
	Frags      Descriptors
	Sent       Sent
	Acks       Acks
	Flushes    Flushes
	Endings    Endings
	Outbox     Outbox
	Timers     Timers
	Overcommit Overcommit
	Buffers    Buffers
}

// counting contains the module's counters and the state of their publication.
type counting struct {
	Count       stats.Values
	Dirty       bool      // Count has changed since the latest publication
	PublishedAt mono.Time // time of the latest publication of Count
}

// closing is the state of a module that closes or drains.
type closing struct {
	Draining   bool      // no new endpoints are accepted
	drainUntil mono.Time // time at which all endpoints end
}

// Open prepares the services on a fabric Domain. If Open returns an error, the caller must close
// the Domain.
func (all *Services) Open(
	dom fabric.Domain, cfg *Config, rules *reliability.Rules, ports port.Config, owner Owner,
) error {
	all.Config, all.Rules, all.owner = *cfg, *rules, owner
	const share = 8
	all.Clock.Init(min(cfg.PeerTimeout, cfg.HandshakeTimeout, cfg.CloseTimeout) / share)
	all.join()
	if err := all.openTables(dom); err != nil {
		return err
	}
	if err := all.Port.Open(dom, ports); err != nil {
		return err
	}
	all.Frags.Payloads.Init(dom, &all.Port.Data.Caps)
	room := min(all.Port.Command.Caps.RecvCapacity, all.Port.Data.Caps.RecvCapacity)
	all.Credits = reliability.NewCredits(room - room/8)
	all.openSmall()
	all.Overcommit.Open()
	return nil
}

// Module returns the module that owns the services.
func (all *Services) Module() any { return all.owner.Module }

// join sets the pointer of each part to the Services, through which a part calls the methods of a
// different part.
func (all *Services) join() {
	all.Sender.Services, all.Packs.Services, all.Links.Services = all, all, all
	all.Writer.Services, all.Buffers.Services, all.Sent.Services = all, all, all
	all.Acks.Services, all.Flushes.Services, all.Frags.Services = all, all, all
	all.Endings.Services, all.Outbox.Services, all.Overcommit.Services = all, all, all
}

func (all *Services) openTables(dom fabric.Domain) (err error) {
	cfg := &all.Config
	all.Recovery, err = reliability.NewRecovery(cfg.SendBuffers, cfg.PeersMax, all.Rules)
	if err != nil {
		return err
	}
	hosts, _ := dom.(fabric.Addresser)
	all.Peers.Init(endOf, cfg.PeersMax, hosts, meet.Limits{
		PerAddress: cfg.Limits.PeersPerAddress, PerHost: cfg.PeersPerHost,
		HalfOpen: cfg.Limits.HalfOpenMax,
	})
	life := liveness.Rules{PeerTimeout: cfg.PeerTimeout, KeepAlive: cfg.KeepAlive}
	err = all.Timers.Watches.Init(watchHost{all}, watchOf, cfg.PeersMax, life, cfg.CloseTimeout)
	if err != nil {
		return err
	}
	if err = all.Timers.Paths.Init(pathHost{all}, pathOf, cfg.PeersMax); err != nil {
		return err
	}
	all.Pool, err = frag.NewPool(frag.PoolConfig{
		FragBytesMax: cfg.FragmentBytesMax,
		BytesMax:     cfg.ReassemblyBytesMax,
		KeepBytes:    cfg.Limits.ReassemblyKeepBytes,
	})
	if err != nil {
		return err
	}
	all.Buffers.init(cfg.SendBuffers)
	all.Buffers.Source.Init(cfg.Random, all.Rules.WithholdEvery)
	all.Sent.init()
	all.Remote.Init(cfg.RegionsMax)
	return nil
}

// openSmall computes how many small datagrams use as much of the kernel's receive buffer as one
// datagram of full size, and passes this number to the pool of credits.
func (all *Services) openSmall() {
	cmd, data := &all.Port.Command.Caps, &all.Port.Data.Caps
	fixed := max(cmd.RecvFixedBytes, data.RecvFixedBytes)
	full := min(cmd.RecvFullBytes, data.RecvFullBytes)
	if min(cmd.RecvFixedBytes, data.RecvFixedBytes) > 0 && !all.Port.Reliable {
		all.Credits.Small(full/2/fixed, full/2/2)
	}
}

// Counters returns the module's counters, which are incremented both by package peer and by its
// callers.
func (all *Services) Counters() *stats.Values { return &all.Count }

// MarkDirty records that the counters have changed.
func (all *Services) MarkDirty() { all.Dirty = true }

// Published records that the counters were published at the present time.
func (all *Services) Published() { all.Dirty, all.PublishedAt = false, all.Clock.Now }

// PublishIdle is the maximum age of the published counters while no packet arrives.
const PublishIdle = 10 * time.Microsecond

// touch records that the counters have changed, and shortens the time in which Progress only polls,
// so that the counters are published after at most PublishIdle.
func (all *Services) touch() {
	if !all.Dirty {
		all.Dirty = true
		all.Rest.Until = all.Rest.Until.Min(all.PublishedAt.Add(PublishIdle))
	}
}

// Drain makes the services accept no new endpoints, and end all endpoints at the time "until" at
// the latest.
func (all *Services) Drain(until mono.Time) { all.Draining, all.drainUntil = true, until }

// Shut makes the services refuse all new endpoints.
func (all *Services) Shut() { all.Draining = true }

// segmentRoom returns the largest payload, in bytes, of a packet of the given kind in a datagram of
// sizeBytes.
func segmentRoom(sizeBytes int, kind frag.Kind) int {
	return sizeBytes - frag.HeaderBytes(kind, 0)
}

// MayRest reports whether polling is all that calls of Progress need to do until the next deadline.
func (all *Services) MayRest() bool {
	return all.Sched.Waiting() == 0 && all.Sched.Packs == 0 && !all.Credits.Stretched() &&
		all.Overcommit.measure == nil && len(all.Port.Leaving) == 0 &&
		!all.Port.ReceivesPending() && all.Outbox.wanting.Len() == 0
}

// Deadline returns the time by which the endpoints need the next call of Progress, even if no
// packet arrives. Deadline returns mono.Never if the endpoints need no call of Progress until a
// packet arrives.
func (all *Services) Deadline() mono.Time {
	if all.Sched.Waiting() > 0 && !all.Sched.Blocked || all.Outbox.Due() || all.Outbox.roomDue() ||
		all.Recovery.ResendsWaiting() > 0 && all.Port.Data.Room() > 0 {
		return all.Clock.Now
	}
	d := all.Recovery.Deadline().Min(all.Timers.Watches.Deadline())
	if all.Port.Pending() {
		d = d.Min(all.Port.RetryAt(all.Clock.Now))
	}
	d = d.Min(all.Timers.Paths.Deadline())
	d = d.Min(all.Clock.Now.Add(all.Handshakes.Kept.WakeAt.Sub(all.Clock.Unpaused)))
	d = d.Min(all.Sched.Pauses.Deadline())
	if all.Draining && all.Peers.Len() > 0 {
		d = d.Min(all.drainUntil)
	}
	return d.Min(all.Acks.AckDeadline())
}

// Drained reports whether all endpoints have ended and the command and data channels have no packet
// left to post. An endpoint that its peer has closed, and that only repeats its last ACK, counts as
// ended.
func (all *Services) Drained() bool {
	if all.Port.Pending() {
		return false
	}
	for _, ep := range all.Peers.All() {
		if ep != nil && (ep.ID.State != StateLingering || ep.Rcv.Owed) {
			return false
		}
	}
	return true
}

// EndAll ends all endpoints immediately.
func (all *Services) EndAll() {
	for _, ep := range all.Peers.All() {
		if ep != nil {
			all.Endings.End(ep, EventClosed, errs.ErrClosed)
		}
	}
}

// Closed ends the sends that the fabric had not completed when it was closed.
func (all *Services) Closed() {
	for t := range all.Buffers.segs {
		if f := all.Buffers.segs[t].frag; f != nil {
			all.Buffers.segs[t] = SendSegment{}
			all.Sent.chunksEnded(f, 1)
		}
	}
}
