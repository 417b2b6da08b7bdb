package meet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gobtl/frag"
	"gobtl/internal/mono"
)

// The bounds of kept connection requests.
const (
	// KeepMax is the longest time for which the application may keep a request. KeepMax also limits
	// how much longer than its time-out a handshake lasts because a peer keeps the request.
	KeepMax = time.Minute
	// requestsMax is the maximum number of kept requests, if Limits.HalfOpen is not lower.
	requestsMax = 1024
	// undecidedMax is the maximum number of kept requests of an address without a decision. If a peer
	// gives up and connects again, its first request stays in the table.
	undecidedMax = 2
	// askAgainMax is the longest time for which a peer whose request is kept does not ask again.
	// NATs and firewalls drop the entry of two ports after 30 seconds or more without packets (30 in
	// Linux). By asking again, a peer also learns whether this side was restarted.
	askAgainMax = 15 * time.Second
)

// Answer is the answer of the application to a connection request.
type Answer struct {
	// Reject without a Reason accepts the peer. The Code of a Reject with the reason RejectKept is
	// the time, in milliseconds, for which the application keeps the request.
	frag.Reject
	// Moved is the name of another module to which the peer must connect, and empty for none.
	Moved []byte
}

// later is the answer that makes the peer ask again at regular intervals.
var later = Answer{Reject: frag.Reject{Reason: frag.RejectLater}}

// refuses reports whether the peer is not accepted.
func (a *Answer) refuses() bool { return a.Reason != 0 || len(a.Moved) > 0 }

// request is a connection request that the application keeps, or has kept and answered.
//
//	kept --> decided --> (gone)   the peer was accepted, or the time until is over
//	     `-> (gone)               the application has not decided before the time until
type request struct {
	peerKey
	id       uint64
	label    string
	host     string
	until    Time
	decided  bool
	answer   Answer                  // once decided
	informed bool                    // the peer understands RejectKept
	nonces   [frag.ProbeCount]uint64 // of the latest Hello through each channel
	heard    uint8                   // mask of the channels with a nonce
	names    [frag.ProbeCount][]byte // addresses of the peer's channels
	callAt   Time                    // when the next packet asks the peer to repeat its request, or 0
	callEnd  Time                    // no such packet is sent after this time
	interval time.Duration           // until the time after callAt
	asksAt   Time                    // when the peer asks again, if no call reaches it
}

// RequestCounts counts kept connection requests.
type RequestCounts struct {
	Kept    uint64 // requests that the application has kept
	Decided uint64 // of these, requests that the application has decided later
	Lapsed  uint64 // kept or decided requests of peers that did not ask again in time
}

// accepted reports whether the application has accepted the peer.
func (r *request) accepted() bool { return r.decided && !r.answer.refuses() }

// requests holds the connection requests that the application keeps. The number of requests, and
// the number for each host, have the same limits as half-open endpoints.
type requests struct {
	list   []*request // by id
	byPeer map[peerKey]*request
	atHost map[string]int32
	ids    uint64 // the latest id
	counts RequestCounts
	wakeAt Time // no request has work before, or Never
}

func (q *requests) init() {
	*q = requests{
		byPeer: make(map[peerKey]*request), atHost: make(map[string]int32), wakeAt: mono.Never,
	}
}

// find returns the request of a peer, or nil. If the request is decided, but was made with a label
// that differs from the given label, find removes the request, because the application has decided
// about the earlier label.
func (q *requests) find(key peerKey, label []byte) *request {
	r := q.byPeer[key]
	if r != nil && r.decided && r.label != string(label) {
		q.remove(r)
		return nil
	}
	return r
}

func (q *requests) byID(id uint64) *request {
	i, ok := slices.BinarySearchFunc(q.list, id, func(r *request, id uint64) int {
		return int(int64(r.id - id))
	})
	if !ok {
		return nil
	}
	return q.list[i]
}

func (q *requests) add(r *request) {
	q.list = append(q.list, r)
	q.byPeer[r.peerKey] = r
	q.atHost[r.host]++
	q.wakeAt = q.wakeAt.Min(r.until)
}

// remove removes a request, which may be nil.
func (q *requests) remove(r *request) {
	if r == nil {
		return
	}
	q.list = slices.DeleteFunc(q.list, func(of *request) bool { return of == r })
	delete(q.byPeer, r.peerKey)
	addTo(q.atHost, r.host, -1)
}

// forgetStale makes room for a further request of an address. If too many requests of the address
// wait for a decision, forgetStale drops the oldest of these requests.
func (q *requests) forgetStale(addr string) {
	var oldest *request
	undecided := 0
	for _, r := range q.list {
		if r.addr == addr && !r.decided {
			undecided++
			if oldest == nil {
				oldest = r
			}
		}
	}
	if undecided >= undecidedMax {
		q.remove(oldest)
		q.counts.Lapsed++
	}
}

// check verifies that the indexes are consistent and that the limits hold.
func (q *requests) check(c *Census) error {
	hosts := 0
	for i, r := range q.list {
		switch {
		case q.byPeer[r.peerKey] != r || i > 0 && q.list[i-1].id >= r.id:
			return fmt.Errorf("the kept request %d is not found", r.id)
		case r.until < q.wakeAt || r.callAt != 0 && r.callAt < q.wakeAt:
			return fmt.Errorf("the kept request %d has work before the requests wake", r.id)
		}
	}
	for _, n := range q.atHost {
		hosts += int(n)
	}
	if len(q.byPeer) != len(q.list) || hosts != len(q.list) || len(q.list) > c.keptMost() {
		return fmt.Errorf("%d kept requests, %d peers, %d by host, at most %d", len(q.list),
			len(q.byPeer), hosts, c.keptMost())
	}
	return nil
}

// keptMost is the maximum number of kept requests.
func (c *Census) keptMost() int { return min(c.limits.HalfOpen, requestsMax) }

// nextID returns the number of the next request of a host, or 0 if no request of this host may be
// kept.
func (s *Handshakes[E]) nextID(host string) uint64 {
	c := &s.peers.Census
	if len(s.requests.list) >= c.keptMost() || c.hosts != nil &&
		int(s.requests.atHost[host]) >= c.shareOf(c.keptMost()) {
		return 0
	}
	s.requests.ids++
	return s.requests.ids
}

// RequestCounts returns the counters of kept connection requests.
func (s *Handshakes[E]) RequestCounts() RequestCounts { return s.requests.counts }

// Requests is the number of kept requests that have not lapsed.
func (s *Handshakes[E]) Requests() int { return len(s.requests.list) }

// CheckRequests verifies that the indexes of the kept requests are consistent, and that the limits
// hold.
func (s *Handshakes[E]) CheckRequests() error { return s.requests.check(&s.peers.Census) }

// RequestsDeadline returns the next time at which the caller must call OnRequestsTimer.
func (s *Handshakes[E]) RequestsDeadline() Time { return s.requests.wakeAt }

// ask asks the application whether to accept a new peer, and stores the request if the application
// keeps it.
func (s *Handshakes[E]) ask(hello *frag.Hello, key peerKey) Answer {
	host := s.peers.HostOf(key.addr)
	id := s.nextID(host)
	answer := s.host.Ask(hello, id)
	if answer.Reason != frag.RejectKept {
		return answer
	}
	if id == 0 || s.host.Shut() {
		return later
	}
	s.requests.forgetStale(key.addr)
	wait := time.Duration(answer.Code) * time.Millisecond
	r := &request{
		peerKey: key, id: id, label: string(hello.Label), host: host,
		until: s.host.Now().Add(wait), informed: hello.Features&frag.FeatureKept != 0,
		names: [frag.ProbeCount][]byte{
			slices.Clone(hello.CommandName), slices.Clone(hello.DataName),
		},
	}
	s.requests.add(r)
	s.requests.counts.Kept++
	return s.answerKept(r, hello)
}

// tell sends a Reject, or the name of another module, to the sender of a Hello that is not
// accepted.
func (s *Handshakes[E]) tell(answer Answer, hello *frag.Hello, to []byte) {
	if len(answer.Moved) > 0 && hello.Features&frag.FeatureKept == 0 {
		answer = Answer{Reject: frag.Reject{Reason: frag.RejectOwner}}
	}
	switch {
	case len(answer.Moved) > 0:
		if !s.strangers.MayReject(s.host.Pass(), hello.Probe, to) {
			return
		}
		s.drafted = s.says
		ack := &s.drafted
		ack.CommandName, ack.DataName, ack.Label, ack.AwayMs = nil, nil, nil, 0
		ack.Tag, ack.Probe, ack.Nonce, ack.Moved = s.random(), hello.Probe, hello.Nonce, answer.Moved
		s.host.SendMoved(to, hello.Tag, ack)
	case answer.Reason != 0:
		answer.Nonce = hello.Nonce
		s.Reject(hello.Probe, to, hello.Tag, frag.Version, answer.Reject)
	}
}

// answerKept answers a Hello of a peer whose request is kept, or was refused or moved. If the label
// in the Hello differs from the label of the request, the peer must wait until the request is
// decided or has lapsed. Otherwise, a peer that changes its label with each Hello would make the
// application keep any number of requests.
func (s *Handshakes[E]) answerKept(r *request, hello *frag.Hello) Answer {
	if r.label != string(hello.Label) {
		return later
	}
	now := s.host.Now()
	if r.decided {
		r.callAt, r.until = 0, r.until.Min(now.Add(s.timeout))
		s.requests.wakeAt = s.requests.wakeAt.Min(r.until)
		return r.answer
	}
	r.nonces[hello.Probe] = hello.Nonce
	r.heard |= hello.Probe.Bit()
	if !r.informed {
		return later
	}
	wait := min(r.until.Sub(now), askAgainMax)
	r.asksAt = now.Add(wait)
	return Answer{Reject: frag.Reject{Reason: frag.RejectKept, Code: waitMs(wait)}}
}

// waitMs returns a time in milliseconds, rounded up, and at least 1.
func waitMs(d time.Duration) uint16 {
	return uint16(min(max((d+time.Millisecond-1)/time.Millisecond, 1), KeepMax/time.Millisecond))
}

// Decide answers a kept request, and tells the peer to ask again. The answer is stored until the
// time at which the peer asks again even without a packet from this side. If the answer has the
// reason RejectKept, the request stays undecided, and Decide changes the time for which it is kept.
// The peer learns the new time when it asks again. Decide returns false if no request with this
// number waits for an answer.
func (s *Handshakes[E]) Decide(id uint64, answer Answer) bool {
	r, now := s.requests.byID(id), s.host.Now()
	if r == nil || r.decided || now >= r.until {
		return false
	}
	if answer.Reason == frag.RejectKept {
		r.until = now.Add(time.Duration(answer.Code) * time.Millisecond)
		s.requests.wakeAt = s.requests.wakeAt.Min(r.until)
		return true
	}
	s.requests.counts.Decided++
	r.decided, r.answer, r.until = true, answer, max(now, r.asksAt).Add(s.timeout)
	r.interval, r.callEnd = HelloIntervalMin, now.Add(s.timeout)
	s.call(r, now)
	s.requests.wakeAt = s.requests.wakeAt.Min(r.until)
	return true
}

// callAgain is the time until call tries again, if the rate limit on Rejects prevented a packet to
// the peer.
const callAgain = time.Millisecond

// call tells a peer, about whose request the application has decided, to ask again. call sets the
// time of the next call.
func (s *Handshakes[E]) call(r *request, now Time) {
	if !r.informed {
		return // the peer asks regularly
	}
	told := r.heard == 0
	for p := range frag.Probe(frag.ProbeCount) {
		if r.heard&p.Bit() != 0 && s.Reject(p, r.names[p], r.Tag, frag.Version, frag.Reject{
			Reason: frag.RejectKept, Nonce: r.nonces[p],
		}) {
			told = true
		}
	}
	if !told {
		r.callAt = now.Add(callAgain)
	} else {
		r.callAt = now.Add(r.interval)
		r.interval = min(2*r.interval, HelloIntervalMax)
	}
	if r.callAt >= r.callEnd {
		r.callAt = 0
		return // the peer is gone, or cannot be reached before it asks by itself
	}
	s.requests.wakeAt = s.requests.wakeAt.Min(r.callAt)
}

// OnRequestsTimer removes the kept requests that have lapsed, and repeats the packets that tell the
// peers of decided requests to ask again. OnRequestsTimer returns true if it has changed a request
// or sent a packet.
func (s *Handshakes[E]) OnRequestsTimer() bool {
	q, now := &s.requests, s.host.Now()
	if now < q.wakeAt {
		return false
	}
	shut := s.host.Shut()
	q.wakeAt = mono.Never
	for _, r := range slices.Clone(q.list) {
		switch {
		case shut || now >= r.until:
			q.remove(r)
			q.counts.Lapsed++
			continue
		case r.callAt != 0 && now >= r.callAt:
			s.call(r, now)
		case r.callAt != 0:
			q.wakeAt = q.wakeAt.Min(r.callAt)
		}
		q.wakeAt = q.wakeAt.Min(r.until)
	}
	return true
}

// onKept handles a Reject which reports that the peer's application keeps the request of ep, or has
// decided on it.
func (s *Handshakes[E]) onKept(ep E, wait time.Duration) bool {
	e := s.peers.end(ep)
	hs := e.hs
	switch {
	case hs.Bound() || hs.Contested() || !hs.Wanted():
		return false
	case wait > 0:
		s.host.SetTimer(ep, hs.Keep(s.host.Now(), wait, s.timeout))
	case hs.Kept() && hs.WakeIn(s.host.Now()) > 0:
		s.host.SetTimer(ep, hs.WakeIn(s.host.Now()))
	case hs.Kept():
		s.askAnew(ep)
		s.sayHello(ep)
	}
	return true
}

// askAnew ends the waiting of a handshake for the decision of the peer's application. New nonces
// make late answers to earlier Hellos invalid.
func (s *Handshakes[E]) askAnew(ep E) {
	hs := s.peers.end(ep).hs
	hs.Wake(s.host.Now(), s.timeout)
	hs.nonces = s.nonces()
}

// errOtherHost means that the peer names a module on a host that is not the peer's host. A peer may
// not make this side send Hellos to other hosts.
var errOtherHost = errors.New("meet: the other module is on another host")

// errMovedTwice means that a module to which the peer has moved this endpoint names yet another
// module. An endpoint may be moved only once.
var errMovedTwice = errors.New("meet: moved for the second time")

// onMoved makes an endpoint connect to another module of the peer's process.
func (s *Handshakes[E]) onMoved(ep E, hello *frag.Hello) bool {
	e := s.peers.end(ep)
	hs := e.hs
	if e.state != Connecting || hs.Bound() || !hs.Answers(hello) {
		return false
	}
	n, err := frag.ParseName(hello.Moved)
	if hs.moved {
		err = errMovedTwice
	}
	if err == nil && s.peers.TellsHosts() && (!s.peers.SameAddress(e.Addr, string(n.Command)) ||
		!s.peers.SameAddress(e.Addr, string(n.Data))) {
		err = errOtherHost
	}
	if err == nil {
		s.giveUp(&n)
		err = s.host.Move(ep, &n)
	}
	if err != nil {
		s.host.End(ep, WhyMisled, frag.Reject{})
		return true
	}
	s.peers.Move(ep, string(n.Command))
	s.peers.Rename(ep, s.random()) // The module that has moved the endpoint knows the old tag.
	e.Peer = PeerTag{Incarnation: n.Incarnation}
	again := hs.Again(s.host.Now(), s.nonces())
	again.moved, again.expected, again.data = true, n.Incarnation, string(n.Data)
	e.hs = again
	s.sayHello(ep)
	return true
}
