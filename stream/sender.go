package stream

import (
	"fmt"
	"sync"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
)

// state is the state of a sender or a receiver.
type state uint8

const (
	stateMeeting state = iota // the peers are not ready yet
	stateRunning
	stateEnding // all is sent; waiting for the receivers' reports
	stateDone
)

// Sender is the sending side of a stream. The exported methods of a Sender are safe for concurrent
// use, except Next and Populate, which only one goroutine at a time may call. The methods that are
// not exported run on the engine's goroutine only.
type Sender struct {
	e     *Engine
	ring  *Ring
	cfg   Config
	key   uint64
	state state
	begun mono.Time // time of the first Progress; 0: none yet
	pace  pacer

	links  []*link
	lost   error  // errors of links that ended early
	latest error  // reason of the latest refusal of a receiver
	wrong  error  // with Only: error of a refused receiver
	next   uint64 // ordinal of the first message of region seqHi
	total  uint64 // ordinal after the last message, or unknownTotal
	ended  mono.Time
	// The field "awaited" is the latest time at which the sender still waited for the final report of
	// a receiver that was ready at the start of the stream.
	awaited mono.Time
	starts  map[string]int // number of start messages sent before the start of the stream, by host
	seqLo   uint64         // numbers of the regions being sent: [seqLo, seqHi)
	seqHi   uint64
	cast    *caster // nil in the reliable mode
	drops   uint64
	told    mono.Time // time of the latest progress report
	overAt  mono.Time // time at which the stream has ended
	// underWay is the number of puts and sends that the fabric has not completed. As long as underWay
	// is not 0, the fabric may still read the ring.
	underWay   int
	registered []*btl.Registration // of the ring's memory, for puts
	prunes     bool                // a link has ended

	stats  Stats
	showAt mono.Time // time of the next update of shown
	sample sampling

	lock     sync.Mutex // guards the fields below, except nextFill
	shown    Stats
	finish   bool
	reports  []Stats
	err      error
	nextFill uint64        // number of the region that Next returns
	dropped  uint64        // messages dropped since the latest Populate
	freed    chan struct{} // signals that a region became free
	started  chan struct{}
	done     chan struct{}
}

var errRingUsed = fmt.Errorf("%w: the ring is used by another stream", ErrConfig)

// newSender creates a sender for the populated regions of the ring.
func (e *Engine) newSender(ring *Ring, cfg Config, key uint64) (*Sender, error) {
	noGrace := cfg.Grace == 0
	cfg, err := cfg.withDefaults()
	if noGrace {
		cfg.Grace = cfg.Timeout
	}
	switch {
	case err != nil:
		return nil, err
	case e.closed:
		return nil, ErrClosed
	case cfg.Unmonitored && cfg.Messages == 0:
		return nil, fmt.Errorf("%w: Unmonitored needs Messages", ErrConfig)
	case len(e.sending)+len(e.receiving) >= streamsMax:
		return nil, fmt.Errorf("%w: %d streams", ErrConfig, streamsMax)
	case cfg.Mode == Unreliable && e.data == nil:
		return nil, fmt.Errorf("%w: the port has no unreliable mode", ErrConfig)
	}
	s := &Sender{
		e: e, ring: ring, cfg: cfg, key: key, next: cfg.First, total: unknownTotal,
		freed: make(chan struct{}, 1), started: make(chan struct{}), done: make(chan struct{}),
	}
	if cfg.Messages > 0 {
		s.total = cfg.First + cfg.Messages
	}
	s.stats.Capacity = uint64(ring.geo.Regions)
	s.sample.every = cfg.Every
	if !ring.claim() {
		return nil, errRingUsed
	}
	if cfg.Mode == Unreliable {
		if s.cast, err = newCaster(s); err != nil {
			ring.unclaim()
			return nil, err
		}
	}
	if cfg.Mode == Reliable {
		s.register()
	}
	ring.setEnd(endOver, false)
	e.letters.opened++
	e.sending = append(e.sending, s)
	return s, nil
}

// addReceiver begins the connection to a receiver. If the sender already has a link to the same
// receiver, addReceiver begins no second connection, and reports no error, because a receiver that
// has missed the answer may send its identity again.
func (s *Sender) addReceiver(id Identity) error {
	switch k := s.linkTo(id); {
	case id.Role != RoleReceiver:
		return fmt.Errorf("%w: of a %s, not of a receiver", ErrIdentity, id.Role)
	case k != nil:
		return k.again(id)
	case s.state >= stateEnding:
		return ErrClosed
	case s.state == stateRunning && s.cfg.Mode == Reliable:
		return fmt.Errorf("%w: the stream has begun: %w", ErrMismatch, inner(ErrTaken))
	}
	if err := s.contend(id); err != nil {
		return err
	}
	ep, otherHost, err := s.e.connect(id)
	if err != nil {
		if isTaken(err) {
			address, _, _ := s.e.m.AddressesOf(id.Name) // the name was parsed already
			s.cfg.noteAt(&s.stats, RefusedTaken, address, id.Key, err)
		}
		return err
	}
	for _, k := range s.links {
		if k.ep == ep && k.state != linkDone {
			return fmt.Errorf("%w: a port receives a stream once, and that one does already", ErrMismatch)
		}
	}
	if id.from != "" && !ep.Connected() {
		s.e.places.take(ep, place{networkOf(id.from), string(id.Name), otherHost})
	}
	s.makeRoom()
	k := &link{
		s: s, ep: ep, to: id.Key, name: id.Name, late: s.state == stateRunning, since: s.e.now,
		otherHost: otherHost, from: id.from,
	}
	s.e.addLink(k)
	s.links = append(s.links, k)
	if ep.Connected() {
		k.endpoint(btl.EventConnected, nil)
	}
	return nil
}

// The method "progress" does the work of the sender that is due, and returns the number of sent
// datagrams or puts.
func (s *Sender) progress(now mono.Time) (n int) {
	if s.begun == 0 {
		s.begun = now
	}
	switch s.state {
	case stateMeeting:
		s.proveAll(now)
		s.meeting(now)
	case stateRunning:
		n = s.running(now)
	case stateEnding:
		s.awaitReports(now)
	case stateDone:
	}
	s.publish(now)
	return n
}

// running does the work of a stream in progress.
func (s *Sender) running(now mono.Time) (n int) {
	s.expire(now)
	s.prune()
	s.proveAll(now)
	if err := s.takeRegions(); err != nil {
		s.fail(err)
		return 0
	}
	if s.cast != nil {
		n = s.cast.progress(now)
	} else {
		n = s.putAll(now)
	}
	s.tell(now)
	s.checkEnd(now)
	return n
}

// alive returns the number of receivers that are ready, and the number of receivers that are not
// ready yet and have not failed.
func (s *Sender) alive() (ready, meeting int) {
	for _, k := range s.links {
		switch k.state {
		case linkReady:
			ready++
		case linkDone:
		default:
			meeting++
		}
	}
	return ready, meeting
}

// The method "meeting" does the sender's work before the start of the stream. The method "meeting"
// starts the stream when the required receivers are ready, and checks the time limits for the
// start.
func (s *Sender) meeting(now mono.Time) {
	s.expire(now)
	s.prune()
	ready, meeting := s.alive()
	wanted := s.cfg.Receivers
	waits := ready < wanted
	if s.cfg.Only {
		waits = ready+meeting < wanted || meeting > 0 && wanted > 0
	}
	switch {
	case s.wrong != nil:
		s.fail(s.wrong)
	case s.lost != nil && ready+meeting == 0 && wanted > 0:
		s.fail(s.lost)
	case !waits:
		s.begin(now)
	case now.Sub(s.begun) > s.cfg.Meet:
		s.fail(withLatest(fmt.Errorf("%w: %d of %d receivers met within %v", ErrTimeout, ready,
			max(wanted, len(s.links)), s.cfg.Meet), s.latest))
	default:
		s.choose(ready + meeting)
	}
}

// choose selects the receivers for the start of the stream. choose does nothing until
// Config.Receivers receivers have validated addresses. With Config.Only, the method "choose" does
// nothing until all receivers that were passed to Connect have validated addresses. choose sends
// start messages with the same datagram size to all selected receivers (see inTurn).
func (s *Sender) choose(there int) {
	wanted := s.cfg.Receivers
	if s.cfg.Only {
		wanted = max(wanted, there)
	}
	chosen, proven := 0, 0
	for _, k := range s.links {
		switch {
		case k.state >= linkSizing && k.state <= linkReady:
			chosen++
		case k.state == linkWelcomed:
			proven++
		}
	}
	if chosen == wanted || chosen+proven < wanted {
		return
	}
	next := s.inTurn()[:wanted-chosen]
	if s.cast != nil && chosen == 0 { // the size is fixed after the first start message
		bytes := next[0].datagramBytes
		for _, k := range next {
			bytes = min(bytes, k.datagramBytes)
		}
		if err := s.cast.cut(bytes); err != nil {
			s.fail(err)
			return
		}
	}
	for _, k := range next {
		s.countStart(k.ep.PeerHost())
		k.start()
	}
}

const (
	// pendingMax is the largest number of receivers without a validated address.
	pendingMax = 64
	// While other receivers wait for their start messages, startTime is the longest time that a
	// selected receiver may take for the probe of the datagram size, and then again for its ready
	// message.
	startTime = time.Second
)

// expire refuses each receiver that has not become ready within the time limit for its present
// state (Config.Timeout, startTime or otherHostTime).
func (s *Sender) expire(now mono.Time) {
	waits := false
	for _, k := range s.links {
		waits = waits || k.state == linkWelcomed
	}
	for _, k := range s.links {
		took := now.Sub(k.since)
		switch {
		case k.otherHost && k.state == linkConnecting && took > otherHostTime:
			k.abandon(RefusedUnreachable, errOtherHost)
		case k.state != linkGreeted && k.state != linkSizing && k.state != linkStarted:
		case took > s.cfg.Timeout:
			k.refuse(RefusedSilent, fmt.Errorf("%w: the receiver has not gone on for %v", ErrTimeout, took))
		case k.state != linkGreeted && waits && took > startTime && !s.cfg.Only:
			k.refuse(RefusedTaken, errTaken)
		}
	}
}

// begin starts the stream. If no receiver has joined yet, begin fixes the stream's datagram size.
func (s *Sender) begin(now mono.Time) {
	if s.cast != nil && s.cast.perMsg == 0 { // no receiver has joined yet
		if err := s.cast.cut(0); err != nil {
			s.fail(err)
			return
		}
	}
	s.state, s.starts = stateRunning, nil
	size := s.ring.geo.MessageBytes
	least, most := size, putBytesMax
	if s.cast != nil {
		least, most = s.cast.perMsg, castBytesMax
	}
	s.pace = newPacer(s.cfg.BitsPerSecond, s.cfg.Delay, size, least, max(least, most))
	s.told = now
	for _, k := range s.links {
		k.heard, k.pace = now, s.pace
		if k.state == linkReady || k.state == linkDone || s.cfg.Receivers == 0 {
			continue
		}
		if k.late = true; s.cast == nil {
			k.refuse(RefusedTaken, errTaken)
		}
	}
	if s.cfg.Begin != nil {
		s.cfg.Begin()
	}
	close(s.started)
	for _, k := range s.links {
		k.start()
	}
}

// tell sends a progress report to the receivers, in the unreliable mode. The reports show the
// receivers that the sender is alive.
func (s *Sender) tell(now mono.Time) {
	if s.cast == nil || now.Sub(s.told) < noticeEvery {
		return
	}
	s.told = now
	for _, k := range s.links {
		if k.state == linkReady {
			s.e.sendNotice(k.ep, notice{noticeSent, s.key, s.cast.sentTo})
		}
	}
}

// checkEnd ends the stream if no receiver is left. If all messages have been sent, checkEnd sends
// the end message to the receivers.
func (s *Sender) checkEnd(now mono.Time) {
	ready, meeting := s.alive()
	if ready+meeting == 0 && s.cfg.Receivers > 0 && s.state != stateDone {
		s.fail(s.lost)
		return
	}
	s.lock.Lock()
	if (s.finish || s.ring.finished()) && s.seqLo == s.seqHi && s.noneWaits() {
		s.drops += s.dropped
		s.next += s.dropped
		s.dropped = 0
		s.total = min(s.total, s.next)
	}
	s.lock.Unlock()
	if s.state != stateRunning || s.next < s.total || s.seqLo != s.seqHi {
		return
	}
	for _, k := range s.links {
		if k.state == linkReady && !k.finished() {
			return
		}
	}
	s.state, s.ended, s.awaited = stateEnding, now, now
	for _, k := range s.links {
		if k.state == linkReady {
			k.end()
		}
	}
	s.awaitReports(now)
}

// noneWaits reports whether all populated regions have been sent.
func (s *Sender) noneWaits() bool {
	slot := int(s.seqHi % uint64(s.ring.geo.Regions))
	return s.ring.get(slot, wordState) != regionPopulated
}

func (s *Sender) publish(now mono.Time) {
	st := &s.stats
	due := s.sample.due(st.Sent)
	if now < s.showAt && s.state != stateDone && !due {
		return
	}
	s.showAt = now.Add(publishEvery)
	ready, _ := s.alive()
	st.Peers = uint64(ready)
	st.Populated = s.seqHi - s.seqLo
	st.SenderDropped = s.drops
	st.ForfeitedNs = int64(s.pace.forfeited)
	for _, k := range s.links {
		st.ForfeitedNs = max(st.ForfeitedNs, int64(k.pace.forfeited))
	}
	s.lock.Lock()
	s.shown = *st
	s.shown.Refused = s.e.refusals(st)
	s.lock.Unlock()
	if due {
		s.cfg.Sample(*st)
	}
}

// publishEvery is the interval between updates of the counters that other goroutines see.
const publishEvery = time.Millisecond

func (s *Sender) deadline(now mono.Time) mono.Time {
	switch s.state {
	case stateMeeting:
		return now.Add(10 * time.Millisecond)
	case stateRunning:
		d := now.Add(noticeEvery)
		if s.ring.polled {
			d = now.Add(ringEvery)
		}
		if s.seqHi > s.seqLo && s.mayGo() {
			d = d.Min(max(s.paced(), now))
		}
		return d
	case stateEnding:
		return now.Add(10 * time.Millisecond)
	case stateDone:
	}
	return mono.Never
}

// The method "paced" returns the earliest time at which the rate limit permits the next message.
func (s *Sender) paced() mono.Time {
	if s.cast != nil {
		return s.pace.next()
	}
	next := mono.Never
	for _, k := range s.links {
		if k.mayPut() {
			next = next.Min(k.pace.next())
		}
	}
	return next
}

// mayGo reports whether the sender can send a message as soon as the rate limit permits it.
func (s *Sender) mayGo() bool {
	if s.cast != nil {
		return true
	}
	for _, k := range s.links {
		if k.mayPut() {
			return true
		}
	}
	return false
}
