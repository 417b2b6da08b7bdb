package call

import (
	"context"
	"errors"

	"gobtl/btl"
)

// caller is the server-side state of one calling peer, guarded by Node.runMu.
type caller struct {
	running      int    // calls whose handlers run, on goroutines, and those that are kept
	reserved     int    // of these for streams
	requestBytes int64  // of their requests
	sending      int    // of which the handlers have ended, and the answers are not accepted
	answerBytes  int64  // of those answers, and of the owed ones; a stream counts its own
	owed         []owed // answers for which there was no room
	paying       bool   // a goroutine sends them
}

// owed is an answer that waits for room.
type owed struct {
	h    head
	body []byte
}

// Each request is answered, or its endpoint ends, as a caller without deadline must not wait for
// ever. But a peer that sends requests and accepts no answers may hold at most Config.AnswerBytes,
// and
const (
	sendingMax = 1024    // answers of goroutines: beyond it a call is refused
	owedMax    = 1 << 15 // other answers: beyond it the endpoint ends
)

// smallBytes is what a peer with nothing pending may use even if all peers together exceed the
// bound.
const smallBytes = 64 << 10

// bufferedBytesMax is the largest answer that is surely not too large, without asking the module.
const bufferedBytesMax = 512

// caller returns the entry of a peer. The caller holds the lock.
func (n *Node) caller(peer *btl.Endpoint) *caller {
	c := n.callers[peer]
	if c == nil {
		c = new(caller)
		n.callers[peer] = c
	}
	return c
}

// forget drops the entry of a peer if it is idle. The caller holds the lock.
func (n *Node) forget(peer *btl.Endpoint) {
	c := n.callers[peer]
	if c != nil && c.running == 0 && c.sending == 0 && len(c.owed) == 0 && !c.paying {
		delete(n.callers, peer)
	}
}

// send sends an answer from one of the Node's goroutines, and waits for room until the Node closes.
// It calls sent when the transport has accepted the answer, or never will; if early is set, before
// the peer can have received it.
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
		// The Node has closed, and does not wait for room. The peer's callers must not wait either,
		// so the endpoint ends.
		_ = n.r.Do(context.Background(), func(*btl.Module) error { peer.Abort(); return nil })
	}
	// In other cases the peer is gone, and needs no answer.
}

// sendLarge is send of a large answer. The answer is copied only once, and Do, unlike SendBuffered,
// returns the error for one that is too large.
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

// sendAnswer sends an answer. Instead of one that is too large for a message, or for the peer, it
// sends statusSize. It returns the head and body that it has sent.
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

// reply sends an answer from the goroutine that drives. If there is no room now, one of the Node's
// goroutines waits for it.
func (n *Node) reply(peer *btl.Endpoint, h head, body []byte) {
	h, body, err := n.sendAnswer(peer, h, body)
	if errors.Is(err, btl.ErrAgain) && !n.owe(peer, h, body) && n.leaveBehind(peer, h) != nil {
		peer.Abort()
	}
}

// leaveBehind leaves an answer without a body to the Runner, which sends it when there is room: a
// closed Node has no goroutine for that.
func (n *Node) leaveBehind(peer *btl.Endpoint, h head) error {
	if n.ended.Err() == nil {
		return btl.ErrAgain
	}
	var msg [headBytes]byte
	h.put(msg[:])
	return n.r.SendBuffered(context.Background(), peer, n.cfg.Tag, msg[:])
}

// mayAnswer says whether there may be an answer of so many bytes more. The caller holds the lock.
func (n *Node) mayAnswer(c *caller, bytes int64) bool {
	return c.answerBytes == 0 && bytes <= smallBytes ||
		(c.answerBytes == 0 || c.answerBytes+bytes <= n.cfg.AnswerBytes) &&
			n.answerBytes+bytes <= totalFactor*n.cfg.AnswerBytes
}

// addAnswer counts the bytes of an answer that is not accepted yet. The caller holds the lock.
func (n *Node) addAnswer(c *caller, bytes int64) {
	c.answerBytes += bytes
	n.answerBytes += bytes
}

// owe queues an answer until there is room for it. It returns false if the queue is at its bound.
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

// pay sends a peer's queued answers, as there is room, until all are sent.
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
