package peer

import (
	"time"

	"gobtl/btl/internal/clock"
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

// Config has the settings of a module that its endpoints use.
type Config struct {
	Rules  reliability.Rules
	Limits limits.Limits

	SendBuffers, PackBytes, FragmentsMax int
	PeersMax, PeersPerHost               int
	RegionsMax, RegistrationsKept        int
	FragmentBytesMax                     uint32
	ReassemblyBytesMax                   int64
	PeerTimeout, KeepAlive, Away         time.Duration
	HandshakeTimeout, CloseTimeout       time.Duration
	Label                                string
	Random                               func() uint64 // never 0
}

// Owner is what the module above does for its endpoints.
type Owner struct {
	Count       *stats.Values    // the counters
	Module      any              // the module
	NewEndpoint func() *Endpoint // makes an endpoint, as a part of the owner's endpoint
	NewFragment func() *Fragment // makes a fragment, as a part of the owner's fragment
	// Ask decides on a connection request. A request that can be kept has a number.
	Ask func(hello *frag.Hello, id uint64) meet.Answer
	// Deadline is the time by which Progress of the module must be called next.
	Deadline func() mono.Time
}

// Services is what all endpoints of a module share. Each part has its own state and methods:
//
//	Sender       which endpoint sends next, and what                    send.go flow.go
//	Packs        small fragments, and ends of large ones, in one packet  pack.go stream.go
//	Links        numbers and timers of outgoing packets                  link.go link_seq.go
//	Writer       headers and control packets                             write_headers.go
//	Buffers      send buffers, from the free list to the fabric          buffers.go
//	Sent         packets in flight: acknowledged, refused, lost          on_ack.go resend.go
//	Acks         owed ACKs                                               acks_send.go
//	Flushes      calls of Flush and Fence                                flush.go
//	Frags        descriptors of fragments, and their memory              fragment.go
//	Endings      how endpoints end                                       end.go
//	Outbox       what the owner is told                                  outbox.go
//	Timers       timers of the endpoints                                 timers.go
//	Overcommit   further credits for long paths                          path_host.go
//	Rest         when a pass may only poll                               rest.go
//
// A part embeds a pointer to Services, by which it reaches the other parts.
type Services struct {
	Config Config
	Rules  reliability.Rules
	Port   port.Port
	Clock  clock.Clock
	owner  Owner

	Recovery   *reliability.Recovery // packets in flight and lost
	Credits    *reliability.Credits  // what peers may send
	Peers      peerTable             // the table of connections
	Handshakes meet.Handshakes[*Endpoint]
	Sched      Scheduler // turns of the endpoints to send
	Remote     remote.Service[*Fragment]
	Pool       *frag.Pool // memory for chunked fragments

	parts
	counting
	closing
}

// parts holds the parts of Services, each with its own state.
type parts struct {
	Sender     Sender
	Packs      Packs
	Links      Links
	Writer     Writer
	Buffers    Buffers
	Sent       Sent
	Acks       Acks
	Flushes    Flushes
	Frags      Descriptors
	Endings    Endings
	Outbox     Outbox
	Timers     Timers
	Overcommit Overcommit
	Rest       Rest
}

// counting is the state of the counters.
type counting struct {
	Count       *stats.Values
	dirty       bool      // Count has changed since the latest publication
	publishedAt mono.Time // time of the latest publication of Count
}

// closing is the state of a module that closes or drains.
type closing struct {
	draining   bool      // no new endpoints are accepted
	drainUntil mono.Time // then all endpoints end
}

// Open prepares the services on a Domain. On an error, the caller closes the Domain.
func (all *Services) Open(dom fabric.Domain, cfg *Config, ports port.Config, owner Owner) error {
	all.Config, all.Rules, all.owner, all.Count = *cfg, cfg.Rules, owner, owner.Count
	const share = 8
	all.Clock.Init(min(cfg.PeerTimeout, cfg.HandshakeTimeout, cfg.CloseTimeout) / share)
	all.join()
	if err := all.openTables(dom); err != nil {
		return err
	}
	if err := all.Port.Open(dom, ports); err != nil {
		return err
	}
	all.Frags.Payloads.Init(dom, all.Port.Data.Caps(), cfg.RegistrationsKept)
	room := min(all.Port.Command.Caps().RecvCapacity, all.Port.Data.Caps().RecvCapacity)
	all.Credits = reliability.NewCredits(room - room/8)
	all.openSmall()
	all.Overcommit.Open()
	return nil
}

// Module returns the module that owns the services.
func (all *Services) Module() any { return all.owner.Module }

// join tells each part where the other parts are.
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

// openSmall tells the credits how many small datagrams use as much of the kernel's receive buffer
// as a datagram of full size.
func (all *Services) openSmall() {
	cmd, data := all.Port.Command.Caps(), all.Port.Data.Caps()
	fixed := max(cmd.RecvFixedBytes, data.RecvFixedBytes)
	full := min(cmd.RecvFullBytes, data.RecvFullBytes)
	if min(cmd.RecvFixedBytes, data.RecvFixedBytes) > 0 && !all.Port.Reliable() {
		all.Credits.Small(full/2/fixed, full/2/2)
	}
}

// MarkDirty records that the counters have changed.
func (all *Services) MarkDirty() { all.dirty = true }

// Unpublished reports whether counters have changed since the latest publication, and the time of
// that publication.
func (all *Services) Unpublished() (dirty bool, publishedAt mono.Time) {
	return all.dirty, all.publishedAt
}

// Published records that the counters are published now.
func (all *Services) Published() { all.dirty, all.publishedAt = false, all.Clock.Now }

// PublishIdle is the maximum age of the published counters while no packet arrives.
const PublishIdle = 10 * time.Microsecond

// touch records that the counters have changed. touch limits the time in which Progress
// only polls, so that the counters are published in time.
func (all *Services) touch() {
	if !all.dirty {
		all.dirty = true
		all.Rest.until = all.Rest.until.Min(all.publishedAt.Add(PublishIdle))
	}
}

// Drain makes the services accept no new endpoints, and end all endpoints at the time until.
func (all *Services) Drain(until mono.Time) { all.draining, all.drainUntil = true, until }

// Shut makes the services accept no new endpoints.
func (all *Services) Shut() { all.draining = true }

// Draining reports whether no new endpoints are accepted.
func (all *Services) Draining() bool { return all.draining }

// segmentRoom returns the largest payload, in bytes, of a packet of the given kind in a datagram of
// sizeBytes.
func segmentRoom(sizeBytes int, kind frag.Kind) int {
	return sizeBytes - frag.HeaderBytes(kind, 0)
}

// MayRest reports whether the following calls of Progress may only poll until the next deadline.
func (all *Services) MayRest() bool {
	return all.Sched.Waiting() == 0 && all.Sched.Packs == 0 && !all.Credits.Stretched() &&
		all.Overcommit.measure == nil && all.Port.Leaving() == 0 && !all.Port.ReceivesPending() &&
		len(all.Outbox.Wanting) == 0
}

// Deadline returns the time by which the endpoints need the next call of Progress, even if no
// packet arrives, or mono.Never.
func (all *Services) Deadline() mono.Time {
	if all.Port.Pending() || all.Sched.Ready() || all.Outbox.Due() || all.Outbox.RoomDue() ||
		all.Recovery.ResendsWaiting() > 0 && all.Port.Data.Room() > 0 {
		return all.Clock.Now
	}
	d := all.Recovery.Deadline().Min(all.Timers.Watches.Deadline())
	d = d.Min(all.Timers.Paths.Deadline())
	d = d.Min(all.Clock.Now.Add(all.Handshakes.RequestsDeadline().Sub(all.Clock.Unpaused)))
	d = d.Min(all.Sched.Pauses.Deadline())
	if all.draining && all.Peers.Len() > 0 {
		d = d.Min(all.drainUntil)
	}
	return d.Min(all.Acks.AckDeadline())
}

// Drained reports whether all endpoints have ended and both channels have no packet left to post.
// Endpoints that linger after the peer's close, to repeat an ACK, count as ended.
func (all *Services) Drained() bool {
	if all.Port.Pending() {
		return false
	}
	for _, ep := range all.Peers.All() {
		if ep != nil && (ep.ID.State() != StateLingering || ep.Rcv.Owes()) {
			return false
		}
	}
	return true
}

// EndAll ends all endpoints at once.
func (all *Services) EndAll() {
	for _, ep := range all.Peers.All() {
		if ep != nil {
			all.Endings.End(ep, EventClosed, ErrClosed)
		}
	}
}

// Closed ends the sends that the fabric had not completed when it was closed.
func (all *Services) Closed() {
	for t := range all.Buffers.Segs {
		if f := all.Buffers.Segs[t].Frag; f != nil {
			all.Buffers.Segs[t] = SendSegment{}
			all.Sent.SegEnded(f)
		}
	}
}
