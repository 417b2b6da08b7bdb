package call

import (
	"context"
	"errors"
	"fmt"

	"gobtl/btl"
)

// caller is the state that a server keeps for one calling peer, guarded by Node.runMu. A caller
// exists from the first call of its endpoint until the endpoint has ended and no call or answer of
// the endpoint is pending.
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

// load counts the calls and answers that a server has in progress for a peer, for a host or for all
// peers.
type load struct {
	running      int   // calls with a running handler, and calls reserved
	requestBytes int64 // bytes of the requests of these calls
	sending      int   // answers of handlers, not accepted by the transport
	answerBytes  int64 // bytes of answers in progress and of queued answers, without streams
}

func (l *load) add(d load) {
	l.running += d.running
	l.requestBytes += d.requestBytes
	l.sending += d.sending
	l.answerBytes += d.answerBytes
}

// add adds a load, whose fields may be negative, to the loads of a peer, of its host and of all
// peers. The caller of add holds runMu.
func (n *Node) add(c *caller, d load) {
	c.load.add(d)
	c.host.load.add(d)
	n.load.add(d)
}

// mayShare reports whether a host may take more of a resource, such as running calls, for which all
// peers together have a limit. The argument all is the sum over all peers, and host is the sum over
// the peers of the host. If all is above the limit, the host may have at most twice the limit minus
// all, so that one host with many peers leaves a part to other hosts.
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
	// limit for the answers of all peers is reached. The transport may have accepted the answer to the
	// peer's latest call before the answer is counted as accepted.
	sendingFree = 1
	// owedFree is the number of queued answers that a peer may always have, and owedOverheadBytes is
	// the memory of a queued answer without its body.
	owedFree          = 64
	owedOverheadBytes = 64
)

// smallBytes is the size of an answer or request that a peer without pending calls or answers may
// always have, even if the limit for all peers is reached.
const smallBytes = 64 << 10

// bufferedBytesMax is the size up to which btl.Endpoint.SendBuffered can always send an answer.
const bufferedBytesMax = 512

// caller returns the state of a peer, and creates the state if there is none. The caller holds
// runMu.
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

// host returns the state of a host, and counts one more calling peer of that host. The caller of
// host holds runMu.
func (n *Node) host(name string) *callerHost {
	h := n.hosts[name]
	if h == nil {
		h = &callerHost{name: name}
		n.hosts[name] = h
	}
	h.callers++
	return h
}

// callsKept limits the memory of a peer without calls. If more than callsKept calls of the peer
// were running at once, the peer's table of calls is freed.
const callsKept = 16

// forget frees memory of a peer that has no pending calls or answers. If the peer's endpoint has
// ended, forget deletes the whole state of the peer. The caller of forget holds runMu.
func (n *Node) forget(peer *btl.Endpoint) {
	c := n.callers[peer]
	if c == nil || len(c.calls) > 0 || c.running > 0 || c.sending > 0 || len(c.owed) > 0 || c.paying {
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

// The method send sends an answer from one of the Node's goroutines, and waits for free
// send buffers until the Node closes. The function sent is called when the transport has
// accepted the answer, or when the answer can no longer be sent. If early is true, the
// function sent is called before the peer can receive the answer.
func (n *Node) send(peer *btl.Endpoint, h head, body []byte, early bool, sent func()) {
	var err error
	if len(body) <= bufferedBytesMax && !early {
		msg := make([]byte, headBytes, headBytes+len(body))
		h.put(msg)
		err = n.r.SendBuffered(n.silent, peer, n.cfg.Tag, append(msg, body...))
		sent()
	} else {
		err = n.sendLarge(peer, h, body, sent)
	}
	if err != nil && n.silent.Err() != nil {
		_ = n.r.Do(context.Background(), func(*btl.Module) error { peer.Abort(); return nil })
	}
}

// sendLarge works like the method send, but copies a large answer only once.
func (n *Node) sendLarge(peer *btl.Endpoint, h head, body []byte, sent func()) error {
	told := false
	err := n.r.DoFor(n.silent, peer, func(*btl.Module) (err error) {
		h, body, err = n.sendAnswer(peer, h, body)
		if err == nil {
			sent()
			told = true
		}
		return err
	})
	if !told {
		sent()
	}
	return err
}

// sendAnswer sends an answer, or the status statusSize if the answer is too large for a message or
// for the peer. sendAnswer returns the header and the body that were sent.
func (n *Node) sendAnswer(peer *btl.Endpoint, h head, body []byte) (head, []byte, error) {
	var done func(*btl.Fragment, error)
	bytes := len(body)
	if bytes > messageBytesLeast { // the peer may refuse it
		refused := head{id: h.id, kind: h.kind, code: uint16(statusSize)}
		done = func(_ *btl.Fragment, err error) {
			if errors.Is(err, btl.ErrUnwanted) {
				n.reply(peer, refused,
					fmt.Appendf(nil, "%d bytes, more than Config.MessageBytes of the caller", bytes))
			}
		}
	}
	err := sendSignalled(peer, n.cfg.Tag, h, body, done)
	if errors.Is(err, btl.ErrTooLarge) {
		h.code = uint16(statusSize)
		body = fmt.Appendf(nil, "%v (FragmentBytesMax of either side's btl.Config)", err)
		err = send(peer, n.cfg.Tag, h, body)
	}
	return h, body, err
}

// reply sends an answer from the goroutine that drives the module. If no send buffer is free,
// another goroutine of the Node sends the answer later.
func (n *Node) reply(peer *btl.Endpoint, h head, body []byte) {
	h, body, err := n.sendAnswer(peer, h, body)
	if errors.Is(err, btl.ErrAgain) && !n.owe(peer, h, body) && n.leaveBehind(peer, h) != nil {
		peer.Abort()
	}
}

// leaveBehind is for a Node that sends no more answers by itself. It passes an answer without a
// body to the Runner, which sends the answer when a send buffer is free.
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
	return c.answerBytes == 0 && bytes <= smallBytes ||
		(c.answerBytes == 0 || c.answerBytes+bytes <= n.cfg.AnswerBytes) &&
			mayShare(n.load.answerBytes, c.host.answerBytes, bytes, totalFactor*n.cfg.AnswerBytes)
}

// mayOwe reports whether the limit for all peers allows another queued answer of a peer. The caller
// holds runMu.
func (n *Node) mayOwe(c *caller) bool {
	most := int64(totalFactor) * n.cfg.AnswerBytes
	return mayShare(n.load.answerBytes, c.host.answerBytes, owedOverheadBytes, most)
}

// owe queues an answer until send buffers are free. owe returns false if the queue of the peer or
// the memory for the queues of all peers is full, or if the Node is closed.
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

// pay sends all queued answers of a peer, and waits for free send buffers.
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
		n.send(peer, first.h, first.body, false, func() {
			n.runMu.Lock()
			defer n.runMu.Unlock()
			n.add(c, load{answerBytes: -int64(len(first.body)) - owedOverheadBytes})
		})
	}
}
