package call

import (
	"errors"

	"gobtl/btl"
)

// The type "account" records how much one answer contributes to the counters that limit the answers
// to a peer. The zero value of the type "account" belongs to an answer that does not count towards
// any limit.
//
//	in progress --sent--> unacknowledged --OnDone--> not counted
//	     \--sent, if no memory of the transport is held --/
type account struct {
	c        *caller
	kept     place // the answer's place in the reservation of a stream
	sending  int   // 1 if the answer counts in load.sending
	bytes    int64
	overhead int64 // additional bytes that count until the transport has accepted the answer
	slot     chan struct{}
}

// The method "count" adds the changes in the argument d to the counters of the answer's stream or,
// if the answer belongs to no stream, to the counters of the peer. The caller holds runMu.
func (n *Node) count(of *account, d load) {
	s := of.kept.stream
	if s == nil {
		n.add(of.c, d)
		return
	}
	s.add(d)
	if s.over {
		of.c.streamed.add(d)
		n.add(of.c, load{ended: s.settle()})
	}
}

// The method "admit" counts an answer of an Inline towards the limits on answers, and returns the
// account of the answer. If the limits do not allow the answer, the method "admit" returns the zero
// account.
func (n *Node) admit(peer *btl.Endpoint, bytes int64) account {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	c := n.caller(peer)
	if !n.mayAnswer(c, bytes) {
		n.forget(peer)
		return account{}
	}
	n.add(c, load{answerBytes: bytes})
	return account{c: c, bytes: bytes}
}

// The method "sent" removes an answer from the count of answers in progress, after the transport
// has accepted the answer or the sending has failed. If the argument "held" is true, the answer
// occupies memory of the transport, and the answer's bytes count until the peer has acknowledged
// them.
func (n *Node) sent(peer *btl.Endpoint, of account, held bool) {
	if of.c == nil {
		return
	}
	n.runMu.Lock()
	defer n.runMu.Unlock()
	d := load{sending: -of.sending, answerBytes: -of.overhead}
	if held {
		d.unacked, d.unackedBytes = 1, of.bytes
	} else {
		d.answerBytes -= of.bytes
		of.leaveSlot()
	}
	if of.kept.stream != nil {
		of.kept.giveBack()
	}
	n.count(&of, d)
	n.forget(peer)
}

// The type "unacked" is an answer that the transport has accepted, and that the peer has neither
// acknowledged nor refused.
type unacked struct {
	peer *btl.Endpoint
	of   account
	h    head
	size int
	done func(*btl.Fragment, error)
}

// unackedOf returns an object of the type "unacked" for an answer that is about to be sent. The
// calling goroutine must own the module.
func (n *Node) unackedOf(peer *btl.Endpoint, h head, size int, of account) *unacked {
	last := len(n.idleUnacked) - 1
	if last < 0 {
		n.keepUnacked(new(unacked))
		last = 0
	}
	u := n.idleUnacked[last]
	n.idleUnacked = n.idleUnacked[:last]
	u.peer, u.of, u.h, u.size = peer, of, h, size
	return u
}

// keepUnacked stores an unused object u for reuse by a later answer, and ignores a nil u.
func (n *Node) keepUnacked(u *unacked) {
	if u == nil {
		return
	}
	if u.done == nil {
		u.done = func(_ *btl.Fragment, err error) { n.answerEnded(u, err) }
	}
	*u = unacked{done: u.done}
	if len(n.idleUnacked) < spareMax {
		n.idleUnacked = append(n.idleUnacked, u)
	}
}

// answerEnded removes an answer from the counters when the peer has acknowledged or refused the
// answer, or the endpoint has ended. If the peer has refused the answer as too large, answerEnded
// sends the peer the status statusSize.
func (n *Node) answerEnded(u *unacked, err error) {
	peer, h, size, of := u.peer, u.h, u.size, u.of
	n.keepUnacked(u)
	if of.c != nil {
		n.runMu.Lock()
		n.count(&of, load{answerBytes: -of.bytes, unacked: -1, unackedBytes: -of.bytes})
		n.forget(peer)
		n.runMu.Unlock()
		of.leaveSlot()
	}
	if errors.Is(err, btl.ErrUnwanted) {
		n.reply(peer, head{id: h.id, kind: h.kind, code: uint16(statusSize)},
			[]byte(moreThanMessageBytes(size, "caller")))
	}
}

// takeSlot delays a large answer of a stream while streamWindow earlier answers of the stream are
// unacknowledged. The delay in takeSlot bounds the number of chunks that a stream stores for a
// client that acknowledges nothing. takeSlot returns nil when the Node stops sending answers
// (Node.silent).
func (n *Node) takeSlot(kept place, bytes int) (slot chan struct{}) {
	if kept.stream == nil || bytes <= packetBytesMin {
		return nil
	}
	select {
	case kept.stream.unackedSlots <- struct{}{}:
		return kept.stream.unackedSlots
	case <-n.silent.Done():
		return nil
	}
}

// leaveSlot frees the answer's slot, so that the next large answer of the same stream can be sent.
func (a *account) leaveSlot() {
	if a.slot != nil {
		<-a.slot
	}
}
