package meet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gobtl/frag"
	"gobtl/internal/mono"
)

// The constants below are limits for kept connection requests, which are those on which the
// application has not decided immediately.
const (
	// KeepMax is the longest time for which the application may delay its decision on a connection
	// request. While the peer's application delays its decision, a handshake can exceed its time-out
	// by at most KeepMax.
	KeepMax = time.Minute
	// requestsMax is the maximum number of stored connection requests, unless Limits.HalfOpen is
	// lower.
	requestsMax = 1024
	// undecidedMax is the maximum number of undecided connection requests that are stored for one
	// address. undecidedMax is more than one, because the first request of a peer that gives up is
	// still stored when the peer connects again.
	undecidedMax = 2
	// askAgainMax is the maximum interval at which a peer repeats a connection request until this side
	// has decided on it. askAgainMax is less than the time after which a NAT or a firewall drops the
	// entry for a pair of ports without packets, which is 30 seconds in Linux. The reply to a repeated
	// request also shows the peer whether this side was restarted.
	askAgainMax = 15 * time.Second
)

// Answer is the answer of the application to a connection request.
type Answer struct {
	// If Reject has no Reason, the application accepts the peer. If the Reason is RejectKept, the Code
	// is the time, in milliseconds, by which the application delays its decision.
	frag.Reject
	// Moved is the name of the module to which the peer must connect instead of this one, or is empty
	// if the peer is not redirected.
	Moved []byte
}

// The variable "later" is the answer that makes the peer repeat its request at regular intervals.
var later = Answer{Reject: frag.Reject{Reason: frag.RejectLater}}

// The method "refuses" reports whether the answer rejects the peer, or redirects the peer to a
// different module.
func (a *Answer) refuses() bool { return a.Reason != 0 || len(a.Moved) > 0 }

// The type "request" describes a connection request on which the application did not decide
// immediately.
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
	callEnd  Time                    // time after which no packet asks the peer to repeat its request
	interval time.Duration           // time from callAt to the packet after it
	asksAt   Time                    // when the peer repeats its request without being told to
}

// RequestCounts counts kept connection requests.
type RequestCounts struct {
	Kept    uint64 // requests that the application has kept
	Decided uint64 // kept requests that the application has decided later
	Lapsed  uint64 // kept or decided requests that the peer did not repeat in time
}

// The method "accepted" reports whether the application has accepted the peer.
func (r *request) accepted() bool { return r.decided && !r.answer.refuses() }

// The type "requests" contains the connection requests on which the application did not decide
// immediately. The number of stored connection requests is limited, both in total and for each
// host.
type requests struct {
	list   []*request // by id
	byPeer map[peerKey]*request
	atHost map[string]int32
	ids    uint64 // the latest id
	Counts RequestCounts
	WakeAt Time // time before which OnRequestsTimer has nothing to do, or Never
}

func (q *requests) init() {
	*q = requests{
		byPeer: make(map[peerKey]*request), atHost: make(map[string]int32), WakeAt: mono.Never,
	}
}

// find returns the stored request of a peer, or nil if no request of the peer is stored. If the
// application has decided on a request whose label differs from the given label, find removes the
// request and returns nil.
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
	q.WakeAt = q.WakeAt.Min(r.until)
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

// If the number of undecided requests from an address has reached undecidedMax, forgetStale drops
// the oldest of these requests.
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
		q.Counts.Lapsed++
	}
}

// check verifies that the indexes of the stored requests are consistent, and that the number of
// requests is within the limits.
func (q *requests) check(most int) error {
	hosts := 0
	for i, r := range q.list {
		switch {
		case q.byPeer[r.peerKey] != r || i > 0 && q.list[i-1].id >= r.id:
			return fmt.Errorf("the kept request %d is not found", r.id)
		case r.until < q.WakeAt || r.callAt != 0 && r.callAt < q.WakeAt:
			return fmt.Errorf("the kept request %d has work before the requests wake", r.id)
		}
	}
	for _, n := range q.atHost {
		hosts += int(n)
	}
	if len(q.byPeer) != len(q.list) || hosts != len(q.list) || len(q.list) > most {
		return fmt.Errorf("%d kept requests, %d peers, %d by host, at most %d", len(q.list),
			len(q.byPeer), hosts, most)
	}
	return nil
}

// keptMost is the maximum number of kept requests.
func (c *Census[E]) keptMost() int { return min(c.limits.HalfOpen, requestsMax) }

// nextID returns a number for the next request of a host, or 0 if the limits do not allow one more
// stored request of this host.
func (s *Handshakes[E]) nextID(host string) uint64 {
	c := &s.peers.Census
	if len(s.Kept.list) >= c.keptMost() || c.hosts != nil &&
		int(s.Kept.atHost[host]) >= c.shareOf(c.keptMost()) {
		return 0
	}
	s.Kept.ids++
	return s.Kept.ids
}

// Requests returns the number of stored connection requests.
func (s *Handshakes[E]) Requests() int { return len(s.Kept.list) }

// CheckRequests verifies that the indexes of the stored connection requests are consistent, and
// that the number of requests is within the limits.
func (s *Handshakes[E]) CheckRequests() error { return s.Kept.check(s.peers.keptMost()) }

// ask asks the application whether to accept a new peer, and stores the connection request if the
// application delays its decision.
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
	s.Kept.forgetStale(key.addr)
	wait := time.Duration(answer.Code) * time.Millisecond
	r := &request{
		peerKey: key, id: id, label: string(hello.Label), host: host,
		until: s.now.Add(wait), informed: hello.Features&frag.FeatureKept != 0,
		names: [frag.ProbeCount][]byte{
			slices.Clone(hello.CommandName), slices.Clone(hello.DataName),
		},
	}
	s.Kept.add(r)
	s.Kept.Counts.Kept++
	return s.answerKept(r, hello)
}

// tell answers a Hello that is not accepted, with a Reject or with a HelloAck that names a
// different module.
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

// answerKept answers a Hello of a peer whose stored request is undecided, was refused, or was
// redirected to a different module. If the label in the Hello differs from the label of the stored
// request, the peer must wait until the request is decided or has expired. If each new label caused
// a new request, a peer could cause any number of requests by changing its label.
func (s *Handshakes[E]) answerKept(r *request, hello *frag.Hello) Answer {
	if r.label != string(hello.Label) {
		return later
	}
	now := *s.now
	if r.decided {
		r.callAt, r.until = 0, r.until.Min(now.Add(s.timeout))
		s.Kept.WakeAt = s.Kept.WakeAt.Min(r.until)
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

// waitMs converts a time to milliseconds, rounded up. The result of waitMs is at least 1 and at
// most KeepMax.
func waitMs(d time.Duration) uint16 {
	return uint16(min(max((d+time.Millisecond-1)/time.Millisecond, 1), KeepMax/time.Millisecond))
}

// Undecided reports whether a request with the number "id" waits for an answer.
func (s *Handshakes[E]) Undecided(id uint64) bool {
	r := s.Kept.byID(id)
	return r != nil && !r.decided && *s.now < r.until
}

// Decide stores the application's answer to a connection request, and sends packets that tell the
// peer to repeat its request. The application's answer stays stored until the peer has repeated its
// request by itself, in case the packets that tell the peer to repeat its request are lost. If the
// answer has the reason RejectKept, the request stays undecided, and only the deadline for the
// decision changes. The reply to the peer's next repetition of its request contains the new
// deadline for the decision. Decide reports whether a request with the number "id" was waiting for
// an answer.
func (s *Handshakes[E]) Decide(id uint64, answer Answer) bool {
	if !s.Undecided(id) {
		return false
	}
	r, now := s.Kept.byID(id), *s.now
	if answer.Reason == frag.RejectKept {
		r.until = now.Add(time.Duration(answer.Code) * time.Millisecond)
		s.Kept.WakeAt = s.Kept.WakeAt.Min(r.until)
		return true
	}
	s.Kept.Counts.Decided++
	r.decided, r.answer, r.until = true, answer, max(now, r.asksAt).Add(s.timeout)
	r.interval, r.callEnd = HelloIntervalMin, now.Add(s.timeout)
	s.call(r, now)
	s.Kept.WakeAt = s.Kept.WakeAt.Min(r.until)
	return true
}

// callAgain is the time until the next attempt to tell a peer to repeat its request, if the limit
// on Rejects has prevented the previous attempt.
const callAgain = time.Millisecond

// The method "call" sends a packet that tells a peer to repeat its request, because the application
// has decided on it. The method "call" also sets the time of the next repetition of its packet.
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
		return // the peer is gone, or will repeat its request by itself
	}
	s.Kept.WakeAt = s.Kept.WakeAt.Min(r.callAt)
}

// OnRequestsTimer removes stored requests whose deadline has passed, and repeats the packets that
// tell peers to repeat their requests. OnRequestsTimer reports whether it has changed a request or
// sent a packet.
func (s *Handshakes[E]) OnRequestsTimer() bool {
	q, now := &s.Kept, *s.now
	if now < q.WakeAt {
		return false
	}
	shut := s.host.Shut()
	q.WakeAt = mono.Never
	for _, r := range slices.Clone(q.list) {
		switch {
		case shut || now >= r.until:
			q.remove(r)
			q.Counts.Lapsed++
			continue
		case r.callAt != 0 && now >= r.callAt:
			s.call(r, now)
		case r.callAt != 0:
			q.WakeAt = q.WakeAt.Min(r.callAt)
		}
		q.WakeAt = q.WakeAt.Min(r.until)
	}
	return true
}

// onKept handles a Reject which reports that the peer's application delays its decision, or has
// decided after a delay.
func (s *Handshakes[E]) onKept(ep E, wait time.Duration) bool {
	e := s.peers.end(ep)
	hs := e.Handshake
	switch {
	case hs.Bound || hs.contested || !hs.wanted:
		return false
	case wait > 0:
		s.host.SetTimer(ep, hs.Keep(*s.now, wait, s.timeout))
	case hs.Kept && hs.WakeIn(*s.now) > 0:
		s.host.SetTimer(ep, hs.WakeIn(*s.now))
	case hs.Kept:
		s.askAnew(ep)
		s.sayHello(ep)
	}
	return true
}

// askAnew prepares the next Hello of a handshake that has waited for the decision of the peer's
// application. The next Hello has new nonces, so that late answers to previous Hellos are invalid.
func (s *Handshakes[E]) askAnew(ep E) {
	hs := s.peers.end(ep).Handshake
	hs.Wake(*s.now, s.timeout)
	hs.Nonces = s.nonces()
}

func addTo(m map[string]int32, key string, d int32) {
	if m[key] += d; m[key] == 0 {
		delete(m, key)
	}
}

// errOtherHost means that the peer redirects this side to a module that is not on the peer's host.
// A peer is not allowed to make this side send Hellos to a host that is not the peer's host.
var errOtherHost = errors.New("meet: the other module is on another host")

// errMovedTwice means that the peer has redirected this endpoint to a module that has redirected
// the endpoint again. An endpoint follows only one redirection.
var errMovedTwice = errors.New("meet: moved for the second time")

// onMoved makes an endpoint connect to the module that the peer's HelloAck names, which is a
// different module in the peer's process.
func (s *Handshakes[E]) onMoved(ep E, hello *frag.Hello) bool {
	e := s.peers.end(ep)
	hs := e.Handshake
	if e.State != Connecting || hs.Bound || !hs.Answers(hello) {
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
	e.Peer, e.Agreement = PeerTag{Incarnation: n.Incarnation}, Agreement{}
	again := hs.Again(*s.now, s.nonces())
	again.moved, again.expected, again.DataName = true, n.Incarnation, string(n.Data)
	e.Handshake = again
	s.sayHello(ep)
	return true
}
