package call

import (
	"context"
	"errors"
	"fmt"

	"gobtl/btl"
)

// caller is the state that a server keeps for one calling peer, guarded by Node.runMu. The state of
// a calling peer exists from the first call of the peer's endpoint until the endpoint has ended and
// no call or answer is pending.
type caller struct {
	load
	host     *callerHost
	calls    map[uint64]context.CancelFunc // running handlers, by the number of the call
	most     int                           // largest length of calls
	reserved int                           // calls in load.running that are reserved for streams
	owed     []owed                        // queued answers, for lack of resources
	paying   bool                          // a goroutine sends the queued answers
	gone     bool                          // the endpoint has ended
}

// load counts the calls and answers that a server has in progress for one peer, one host or all
// peers.
type load struct {
	running      int   // calls with a running handler, and calls reserved
	requestBytes int64 // bytes of the requests of these calls
	sending      int   // answers of handlers, not accepted by the transport
	answerBytes  int64 // bytes of answers until their end, without streams
	unacked      int   // answers that the transport has accepted, and that have not ended
	unackedBytes int64 // bytes of these answers, which are a part of answerBytes
}

func (l *load) add(d load) {
	l.running += d.running
	l.requestBytes += d.requestBytes
	l.sending += d.sending
	l.answerBytes += d.answerBytes
	l.unacked += d.unacked
	l.unackedBytes += d.unackedBytes
}

// add adds the argument d, whose fields may be negative, to the counts of a peer, of its host and
// of all peers. The caller of add holds runMu.
func (n *Node) add(c *caller, d load) {
	c.load.add(d)
	c.host.load.add(d)
	n.load.add(d)
}

// mayShare reports whether a host may take more of a resource, such as running calls, for which all
// peers together have a limit. The argument "all" is the amount that all peers together use, and
// the argument "host" is the amount that the peers of the host use. If all peers together use more
// than the limit, a host may use at most 2*limit-all, so that one host with many peers leaves a
// part to other hosts.
func mayShare[T int | int64](all, host, more, limit T) bool {
	return all+more <= limit || host+more <= 2*limit-all
}

// owed is an answer that waits for free send buffers of the transport.
type owed struct {
	h    head
	body []byte
}

const (
	sendingMax = 1024    // answers of goroutines; a further call gets ErrBusy
	owedMax    = 1 << 15 // other answers; a further one ends the endpoint
	// A peer with at most sendingFree answers in progress may begin one call at a time, even if the
	// limit for the answers of all peers is reached. An answer still counts as in progress for a
	// short time after the transport has accepted it.
	sendingFree = 1
	// owedFree is the number of queued answers that every peer may have regardless of the other
	// peers. owedOverheadBytes is the memory of a queued answer without its body.
	owedFree          = 64
	owedOverheadBytes = 64
)

// smallBytes is the size of the largest request that is accepted from a peer without running
// requests, and of the largest answer that is kept for a peer without other answers, whatever other
// peers use.
const smallBytes = 64 << 10

// unackedFree is the number of bytes of unacknowledged answers, and unackedFreeCount is the number
// of such answers of any size, that do not count towards AnswerBytes. A peer that has received an
// answer may call again before its acknowledgement has arrived.
const (
	unackedFree      = 1 << 20
	unackedFreeCount = 1
)

// The method named against returns the number of bytes of answers that count towards AnswerBytes
// for one peer.
func (l *load) against() int64 {
	if l.unacked <= unackedFreeCount || l.unackedBytes <= unackedFree {
		return l.answerBytes - l.unackedBytes
	}
	return l.answerBytes
}

// packetBytesMin is the size of the largest answer that is always sent from a packet buffer of the
// transport. The memory of packet buffers is bounded by the transport.
const packetBytesMin = 1 << 10

// bufferedBytesMax is the size of the largest answer that is sent with Runner.SendBuffered.
const bufferedBytesMax = 512

// The method named caller returns the state of a peer, and creates the state if there is none. The
// caller holds runMu.
func (n *Node) caller(peer *btl.Endpoint) *caller {
	c := n.callers[peer]
	if c == nil {
		c = &caller{host: n.host(n.hostOf(peer)), calls: map[uint64]context.CancelFunc{}}
		n.callers[peer] = c
	}
	return c
}

// callerHost is the server-side state of all calling peers of one host, guarded by Node.runMu.
type callerHost struct {
	load
	name    string
	callers int // number of these peers
}

// The method named host returns the state of a host, and counts one more calling peer of that host.
// The caller of host holds runMu.
func (n *Node) host(name string) *callerHost {
	h := n.hosts[name]
	if h == nil {
		h = &callerHost{name: name}
		n.hosts[name] = h
	}
	h.callers++
	return h
}

// callsKept is the largest number of calls for which the call table of an idle peer is kept. The
// table of an idle peer is freed if it once held more than callsKept calls.
const callsKept = 16

// forget frees memory of a peer if no call or answer of the peer is pending. If the peer's endpoint
// has ended, forget deletes the whole state of the peer. The caller of forget holds runMu.
func (n *Node) forget(peer *btl.Endpoint) {
	c := n.callers[peer]
	if c == nil || len(c.calls) > 0 || c.running > 0 || c.sending > 0 || len(c.owed) > 0 || c.paying ||
		c.answerBytes > 0 {
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

// The method named send sends an answer from one of the Node's goroutines, and waits for free send
// buffers until the Node closes. The argument "of" of the method named send is the answer's part in
// the counts of answers. If the argument "early" is true, the answer counts as accepted before the
// peer can receive the answer.
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

// sendLarge sends an answer like the method named send, but copies a large answer only once.
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
// If sendAnswer returns no error, sendAnswer has also updated the counters of answers.
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

// The method named reply sends an answer from the goroutine that drives the module. If no send
// buffer is free, another goroutine of the Node sends the answer later. If the limits on answers do
// not allow the answer, reply sends the status statusRoom in its place.
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
// buffer is free. A closed Node sends its answers by leaveBehind, because its own goroutines have
// ended.
func (n *Node) leaveBehind(peer *btl.Endpoint, h head) error {
	if n.ended.Err() == nil {
		return btl.ErrAgain
	}
	var msg [headBytes]byte
	h.put(msg[:])
	return n.r.SendBuffered(context.Background(), peer, n.cfg.Tag, msg[:])
}

// mayAnswer reports whether the limits on unaccepted answers allow a further answer of the given
// number of bytes. The caller holds runMu.
func (n *Node) mayAnswer(c *caller, bytes int64) bool {
	counted := c.against()
	return counted == 0 && c.answerBytes <= smallBytes && bytes <= smallBytes ||
		(counted == 0 || counted+bytes <= n.cfg.AnswerBytes) &&
			mayShare(n.load.answerBytes, c.host.answerBytes, bytes, totalFactor*n.cfg.AnswerBytes)
}

// mayOwe reports whether the limit on the answers to all peers allows another queued answer to a
// peer. The caller holds runMu.
func (n *Node) mayOwe(c *caller) bool {
	most := int64(totalFactor) * n.cfg.AnswerBytes
	return mayShare(n.load.answerBytes, c.host.answerBytes, owedOverheadBytes, most)
}

// owe queues an answer until send buffers are free. owe returns false if the answers queued for the
// peer or for all peers have reached their limit, or if the Node is closed.
func (n *Node) owe(peer *btl.Endpoint, h head, body []byte) bool {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if n.ended.Err() != nil {
		return false
	}
	c := n.caller(peer)
	if len(c.owed) >= owedMax || len(c.owed) >= owedFree && !n.mayOwe(c) {
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

// pay sends all queued answers of a peer, and waits for a free send buffer before each answer.
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
