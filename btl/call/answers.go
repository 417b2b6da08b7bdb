package call

import (
	"context"
	"errors"

	"gobtl/btl"
)

// caller is the server-side state of one calling peer, guarded by Node.runMu.
type caller struct {
	running      int    // calls with a running handler, and calls reserved
	reserved     int    // calls in running that are reserved for streams
	requestBytes int64  // bytes of the requests of these calls
	sending      int    // answers of handlers, not accepted by the transport
	answerBytes  int64  // bytes of these and of owed answers, without streams
	owed         []owed // queued answers, for lack of resources
	paying       bool   // a goroutine sends the owed answers
}

// owed is an answer that waits until the transport has resources for it.
type owed struct {
	h    head
	body []byte
}

// Each request is answered, or its endpoint ends, because a caller without a deadline must not
// wait for ever. A peer that sends requests but accepts no answers may hold at most
// Config.AnswerBytes, and at most sendingMax and owedMax answers.
const (
	sendingMax = 1024    // answers of goroutines; a further call gets ErrBusy
	owedMax    = 1 << 15 // other answers; a further one ends the endpoint
)

// smallBytes is the number of bytes that a peer with nothing pending may use, even if the answers
// or requests of all peers together exceed their limit.
const smallBytes = 64 << 10

// bufferedBytesMax is the size up to which an answer always fits in a message of the module.
const bufferedBytesMax = 512

// caller returns the state of a peer, and creates it if needed. The caller holds runMu.
func (n *Node) caller(peer *btl.Endpoint) *caller {
	c := n.callers[peer]
	if c == nil {
		c = new(caller)
		n.callers[peer] = c
	}
	return c
}

// forget deletes the state of a peer without pending calls or answers. The caller holds runMu.
func (n *Node) forget(peer *btl.Endpoint) {
	c := n.callers[peer]
	if c != nil && c.running == 0 && c.sending == 0 && len(c.owed) == 0 && !c.paying {
		delete(n.callers, peer)
	}
}

// send sends an answer from one of the Node's goroutines, and waits for resources until the
// Node closes. Function sent is called when the transport has accepted the answer, or never
// will. If early is true, sent is called before the peer can have received the answer.
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
		// The Node has closed, and does not wait for resources. The peer's callers must not
		// wait either, so the endpoint is ended.
		_ = n.r.Do(context.Background(), func(*btl.Module) error { peer.Abort(); return nil })
	}
	// If SendBuffered or Do failed for another reason, the peer is gone and needs no answer.
}

// sendLarge does what send does, for a large answer. The answer is copied only once. Unlike
// SendBuffered, Do returns the error for an answer that is too large.
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

// sendAnswer sends an answer. If the answer is too large for a message, or for the peer,
// sendAnswer sends the status statusSize instead. The results of sendAnswer are the head and body
// that were sent.
func (n *Node) sendAnswer(peer *btl.Endpoint, h head, body []byte) (head, []byte, error) {
	var done func(*btl.Fragment, error)
	if len(body) > messageBytesLeast { // the peer may refuse it
		refused := head{id: h.id, kind: h.kind, code: uint16(statusSize)}
		done = func(_ *btl.Fragment, err error) {
			if errors.Is(err, btl.ErrUnwanted) {
				n.reply(peer, refused, nil)
			}
		}
	}
	err := sendSignalled(peer, n.cfg.Tag, h, body, done)
	if errors.Is(err, btl.ErrTooLarge) {
		h.code, body = uint16(statusSize), nil
		err = send(peer, n.cfg.Tag, h, nil)
	}
	return h, body, err
}

// reply sends an answer from the driving goroutine. If resources are missing now, one of the
// Node's goroutines sends the answer later.
func (n *Node) reply(peer *btl.Endpoint, h head, body []byte) {
	h, body, err := n.sendAnswer(peer, h, body)
	if errors.Is(err, btl.ErrAgain) && !n.owe(peer, h, body) && n.leaveBehind(peer, h) != nil {
		peer.Abort()
	}
}

// leaveBehind passes an answer without a body to the Runner, which sends the answer when there
// are resources. A closed Node uses leaveBehind, because a closed Node has no goroutine that
// could wait for resources.
func (n *Node) leaveBehind(peer *btl.Endpoint, h head) error {
	if n.ended.Err() == nil {
		return btl.ErrAgain
	}
	var msg [headBytes]byte
	h.put(msg[:])
	return n.r.SendBuffered(context.Background(), peer, n.cfg.Tag, msg[:])
}

// mayAnswer reports whether the limits allow an answer of so many bytes. The caller holds
// runMu.
func (n *Node) mayAnswer(c *caller, bytes int64) bool {
	return c.answerBytes == 0 && bytes <= smallBytes ||
		(c.answerBytes == 0 || c.answerBytes+bytes <= n.cfg.AnswerBytes) &&
			n.answerBytes+bytes <= totalFactor*n.cfg.AnswerBytes
}

// addAnswer counts the bytes of an answer that the transport has not accepted yet. The caller
// holds runMu.
func (n *Node) addAnswer(c *caller, bytes int64) {
	c.answerBytes += bytes
	n.answerBytes += bytes
}

// owe queues an answer until the transport has resources. The result of owe is false if the queue
// is full or the Node is closed.
func (n *Node) owe(peer *btl.Endpoint, h head, body []byte) bool {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if n.ended.Err() != nil {
		return false
	}
	c := n.caller(peer)
	if len(c.owed) >= owedMax {
		return false
	}
	if !n.mayAnswer(c, int64(len(body))) {
		h.code, body = uint16(statusRoom), nil
	}
	n.addAnswer(c, int64(len(body)))
	c.owed = append(c.owed, owed{h, append([]byte(nil), body...)})
	if !c.paying {
		c.paying = true
		n.work.Add(1)
		go n.pay(peer, c)
	}
	return true
}

// pay sends all queued answers of a peer, and waits for resources.
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
			n.addAnswer(c, -int64(len(first.body)))
		})
	}
}
