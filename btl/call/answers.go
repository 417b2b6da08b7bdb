package call

import (
	"context"
	"errors"
	"fmt"

	"gobtl/btl"
)

// The type "caller" is the state of one calling peer at a server, guarded by Node.runMu. The state
// of a calling peer exists from the first call until the peer's endpoint has ended and none of its
// calls or answers is pending.
type caller struct {
	load
	counted  load // the part of load that counts towards the limits for hosts and for all peers
	streamed load // answers of ended streams, which are not a part of load
	host     *callerHost
	calls    map[uint64]context.CancelFunc // running handlers, by the number of the call
	most     int                           // largest length of calls
	reserved int                           // calls in load.running that are reserved for streams
	owed     []owed                        // queued answers, for lack of resources
	paying   bool                          // a goroutine sends the queued answers
	gone     bool                          // the endpoint has ended
	// Up to freeCalls running calls of the peer, and up to freeRequestBytes of their requests, do not
	// count towards the limits for all peers.
	freeCalls        int
	freeRequestBytes int64
}

// The type "load" counts the calls and answers that a server has in progress, either for one peer,
// for the peers of one host, or for all peers.
type load struct {
	running      int   // calls with a running handler, and calls reserved
	ended        int   // calls and answers of ended streams, at most streamCalls for each stream
	requestBytes int64 // bytes of the requests of these calls
	sending      int   // answers of handlers, not accepted by the transport
	answerBytes  int64 // bytes of answers until their end; streams have a load of their own
	unacked      int   // answers that the transport has accepted, and that have not ended
	unackedBytes int64 // bytes of these answers, which are a part of answerBytes
}

func (l *load) add(d load) {
	l.running += d.running
	l.ended += d.ended
	l.requestBytes += d.requestBytes
	l.sending += d.sending
	l.answerBytes += d.answerBytes
	l.unacked += d.unacked
	l.unackedBytes += d.unackedBytes
}

// The method "inTotal" returns the number of calls that count towards Config.Total.
func (l *load) inTotal() int { return l.running + l.ended }

// The method "add" adds the argument d, whose fields can be negative, to the counts of a peer, of
// the peer's host and of all peers. The caller holds runMu.
func (n *Node) add(c *caller, d load) {
	more := c.more(d)
	c.load.add(d)
	c.counted.add(more)
	c.host.counted.add(more)
	if c.gone {
		c.host.left.add(d)
	}
	n.load.add(d)
	n.counted.add(more)
}

// The method "more" returns the growth of the counted part of a peer's load if the load grows by d.
// While a peer is within its allowance for a resource, its use of the resource does not count
// towards the limit for all peers. If allowances counted, one host with many peers could use up the
// limit for all peers by allowances alone. All peers together use less than twice a limit, plus one
// allowance for each peer.
func (c *caller) more(d load) load {
	l := c.load
	l.add(d)
	if l.running <= c.freeCalls {
		if l.running = 0; l.sending <= sendingFree+1 {
			l.sending = 0
		}
	}
	if l.requestBytes <= c.freeRequestBytes {
		l.requestBytes = 0
	}
	if l.answerBytes <= freeAnswerBytes {
		l.answerBytes = 0
	}
	is := &c.counted
	l.add(load{
		-is.running, -is.ended, -is.requestBytes, -is.sending, -is.answerBytes, -is.unacked,
		-is.unackedBytes,
	})
	return l
}

// mayShare reports whether a host is allowed to use the additional amount "more" of a resource,
// such as running calls, whose limit all peers share. The argument "all" of mayShare is the counted
// amount of all peers, and the argument "host" is the counted amount of the peers of the host. If
// the sum of all peers would exceed the limit, the host is allowed to use at most 2*limit-all, so
// that one host with many peers cannot exclude other hosts. If "more" is 0, the peer is within its
// allowance, and mayShare returns true.
func mayShare[T int | int64](all, host, more, limit T) bool {
	return more <= 0 || all+more <= limit || host+more <= 2*limit-all
}

// The type "owed" is an answer that waits for free send buffers of the transport.
type owed struct {
	h    head
	body []byte
}

const (
	sendingMax = 1024    // answers of goroutines; a further call gets ErrBusy
	owedMax    = 1 << 15 // other answers; a further one ends the endpoint
	// Even if the limit for the answers to all peers is reached, a peer with at most sendingFree
	// answers in progress is allowed to begin one call at a time. sendingFree is not 0 because an
	// answer is still in progress for a short time after the transport has accepted it.
	sendingFree = 1
	// owedFree is the number of queued answers that every peer is allowed to have, even if the limit
	// on the answers to all peers is reached. owedOverheadBytes is the memory that a queued answer
	// needs in addition to its body.
	owedFree          = 64
	owedOverheadBytes = 64
)

// The allowance of a peer does not count towards the limits for all peers together, and remains
// available when these limits are reached. A peer without running requests can send one request of
// at most smallBytes, unless handlers of ended endpoints of the same host are running. The
// allowance for answers is freeAnswerBytes, which is enough for at most smallBytes of
// unacknowledged answers, one more answer of at most smallBytes, and owedFree queued answers.
const (
	smallBytes      = 64 << 10
	freeAnswerBytes = 2*smallBytes + owedFree*owedOverheadBytes
)

// Of the unacknowledged answers to a peer, unackedFree bytes (as many as the last answers of a
// stream) do not count towards AnswerBytes. If there are at most unackedFreeCount unacknowledged
// answers, none of their bytes count. Because some bytes do not count, a peer can begin its next
// call or stream before its acknowledgement of the latest answer has arrived.
const (
	unackedFree      = streamWindow * streamAnswerBytes
	unackedFreeCount = 1
)

// The method "against" returns the number of answer bytes of one peer that count towards the limit
// AnswerBytes. The answers of ended streams count towards AnswerBytes, and the answers of open
// streams do not.
func (c *caller) against() int64 {
	l := c.load
	l.add(c.streamed)
	if l.unacked <= unackedFreeCount {
		return l.answerBytes - l.unackedBytes
	}
	return l.answerBytes - min(l.unackedBytes, unackedFree)
}

// An answer of at most packetBytesMin bytes is always sent from a packet buffer, and the transport
// itself limits the memory of packet buffers.
const packetBytesMin = 1 << 10

// bufferedBytesMax is the size of the largest answer that is sent with Runner.SendBuffered.
const bufferedBytesMax = 512

// The method "caller" returns the state of a calling peer, and creates the state if there is none.
// The calling function holds runMu.
func (n *Node) caller(peer *btl.Endpoint) *caller {
	c := n.callers[peer]
	if c == nil {
		c = &caller{host: n.host(n.hostOf(peer)), calls: map[uint64]context.CancelFunc{}}
		n.callers[peer] = c
	}
	return c
}

// callerHost is the server's common state of all calling peers on one host, guarded by Node.runMu.
type callerHost struct {
	counted load // the sum of caller.counted
	left    load // the sum of caller.load of the peers whose endpoints have ended
	name    string
	callers int // number of calling peers on the host
}

// The method "host" returns the state of a host, and counts one more calling peer on that host. The
// calling function holds runMu.
func (n *Node) host(name string) *callerHost {
	h := n.hosts[name]
	if h == nil {
		h = &callerHost{name: name}
		n.hosts[name] = h
	}
	h.callers++
	return h
}

// When no call or answer of a peer is pending, the server frees the peer's table of calls if the
// table once had more than callsKept calls.
const callsKept = 16

// If no call or answer of a peer is pending, the method "forget" frees unneeded memory of the
// peer's state. If the peer's endpoint has ended, and no call or answer of the peer is pending, the
// method "forget" deletes the whole state. The calling function holds runMu.
func (n *Node) forget(peer *btl.Endpoint) {
	c := n.callers[peer]
	if c == nil || len(c.calls) > 0 || c.inTotal() > 0 || c.sending > 0 || len(c.owed) > 0 ||
		c.paying || c.answerBytes > 0 {
		return
	}
	if c.most > callsKept {
		c.calls, c.most = map[uint64]context.CancelFunc{}, 0
	}
	if c.gone {
		delete(n.callers, peer)
		if c.host.callers--; c.host.callers == 0 {
			delete(n.hosts, c.host.name)
		}
	}
}

// The method "send" sends an answer, and runs on one of the Node's goroutines. If no send buffer is
// free, the method "send" waits for one, but at most until the Node closes. The argument "of" of
// the method "send" describes how the answer counts towards the limits. If the argument "early" is
// true, the counters of answers are updated before the peer can receive the answer.
func (n *Node) send(peer *btl.Endpoint, h head, body []byte, early bool, of account) {
	var err error
	if len(body) <= bufferedBytesMax && !early {
		msg := make([]byte, headBytes, headBytes+len(body))
		h.put(msg)
		err = n.r.SendBuffered(n.silent, peer, n.cfg.Tag, append(msg, body...))
		n.sent(peer, of, false)
	} else {
		err = n.sendLarge(peer, h, body, of)
	}
	if err != nil && n.silent.Err() != nil {
		_ = n.r.Do(context.Background(), func(*btl.Module) error { peer.Abort(); return nil })
	}
}

// sendLarge sends an answer like the method "send", but copies a large answer only once.
func (n *Node) sendLarge(peer *btl.Endpoint, h head, body []byte, of account) error {
	told := false
	err := n.r.DoFor(n.silent, peer, func(*btl.Module) (err error) {
		h, body, err = n.sendAnswer(peer, h, body, of)
		told = err == nil
		return err
	})
	if !told {
		n.sent(peer, of, false)
	}
	return err
}

// sendAnswer sends an answer, or the status statusSize without the answer if the answer is larger
// than the transport or the peer allows. sendAnswer returns the header and the body that were sent.
// If sendAnswer succeeds, it updates the counters of answers.
func (n *Node) sendAnswer(peer *btl.Endpoint, h head, body []byte, of account,
) (head, []byte, error) {
	var u *unacked
	var done func(*btl.Fragment, error)
	if len(body) > packetBytesMin {
		u = n.unackedOf(peer, h, len(body), of)
		done = u.done
	}
	st, err := sendFragment(peer, n.cfg.Tag, h, body, false, done)
	if err == nil && st == btl.Queued && u != nil {
		n.sent(peer, of, true)
		return h, body, nil
	}
	n.keepUnacked(u)
	if errors.Is(err, btl.ErrTooLarge) {
		h.code = uint16(statusSize)
		body = fmt.Appendf(nil, "%v (%s)", err, fragmentLimit)
		err = send(peer, n.cfg.Tag, h, body)
	}
	if err == nil {
		n.sent(peer, of, false)
	}
	return h, body, err
}

// The method "reply" sends an answer, and runs on the goroutine that drives the module. If no send
// buffer is free, a goroutine of the Node sends the answer later. If the limits do not allow the
// answer, the method "reply" sends the status statusRoom instead. If the limits do not even allow a
// queued status, the method "reply" ends the endpoint, because the caller of a lost answer would
// wait for ever. The method "reply" does not end the endpoint of a peer that is within its
// allowance.
func (n *Node) reply(peer *btl.Endpoint, h head, body []byte) {
	var of account
	if len(body) > packetBytesMin {
		if of = n.admit(peer, int64(len(body))); of.bytes == 0 {
			h.code, body = uint16(statusRoom), nil
		}
	}
	h, body, err := n.sendAnswer(peer, h, body, of)
	if err != nil {
		n.sent(peer, of, false)
	}
	if errors.Is(err, btl.ErrAgain) && !n.owe(peer, h, body) && n.leaveBehind(peer, h) != nil {
		peer.Abort()
	}
}

// leaveBehind passes an answer without a body to the Runner, which sends the answer when a send
// buffer is free. Only a closed Node, whose own goroutines have ended, sends answers with
// leaveBehind. If the Node is open, leaveBehind returns btl.ErrAgain and sends nothing.
func (n *Node) leaveBehind(peer *btl.Endpoint, h head) error {
	if n.ended.Err() == nil {
		return btl.ErrAgain
	}
	var msg [headBytes]byte
	h.put(msg[:])
	return n.r.Post(peer, n.cfg.Tag, msg[:])
}

// mayAnswer reports whether the limits on unacknowledged answers allow one more answer, of the
// given number of bytes, to a peer. The caller holds runMu.
func (n *Node) mayAnswer(c *caller, bytes int64) bool {
	against := c.against()
	return (against == 0 || against+bytes <= n.cfg.AnswerBytes) && n.mayHold(c, bytes)
}

// mayHold reports whether the limit on the answers to all peers allows the given number of further
// bytes of answers to a peer. The caller holds runMu.
func (n *Node) mayHold(c *caller, bytes int64) bool {
	more := c.more(load{answerBytes: bytes}).answerBytes
	return mayShare(n.counted.answerBytes, c.host.counted.answerBytes, more,
		totalFactor*n.cfg.AnswerBytes)
}

// The method "owe" queues an answer until a send buffer is free, and reports whether it has queued
// the answer. If the queued answers to the peer or to all peers have reached their limit, or if the
// Node is closed, the method "owe" queues nothing.
func (n *Node) owe(peer *btl.Endpoint, h head, body []byte) bool {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if n.ended.Err() != nil {
		return false
	}
	c := n.caller(peer)
	if len(c.owed) >= owedMax || len(c.owed) >= owedFree && !n.mayHold(c, owedOverheadBytes) {
		return false
	}
	if !n.mayAnswer(c, int64(len(body))+owedOverheadBytes) {
		h.code, body = uint16(statusRoom), nil
	}
	n.add(c, load{answerBytes: int64(len(body)) + owedOverheadBytes})
	c.owed = append(c.owed, owed{h, append([]byte(nil), body...)})
	if !c.paying {
		c.paying = true
		n.work.Add(1)
		go n.pay(peer, c)
	}
	return true
}

// The method "pay" sends all queued answers of a peer, and waits for a free send buffer before each
// answer.
func (n *Node) pay(peer *btl.Endpoint, c *caller) {
	defer n.work.Done()
	for {
		n.runMu.Lock()
		if len(c.owed) == 0 {
			c.owed, c.paying = nil, false
			n.forget(peer)
			n.runMu.Unlock()
			return
		}
		first := c.owed[0]
		c.owed[0] = owed{}
		c.owed = c.owed[1:]
		n.runMu.Unlock()
		n.send(peer, first.h, first.body, false,
			account{c: c, bytes: int64(len(first.body)), overhead: owedOverheadBytes})
	}
}
