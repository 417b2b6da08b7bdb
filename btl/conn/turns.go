package conn

import "gobtl/btl"

// The type "turns" is the queue of a peer's Conns that wait for send buffers. When a send buffer is
// free, the first Conn in the queue sends one message with bytes of its stream, and, if it has more
// bytes, moves to the end of the queue. If no send buffer is free for the message, the Conn keeps
// its place at the head of the queue. A Conn that is not in the queue sends control messages, such
// as credits, without waiting. While the queue is not empty, a Conn that gets stream bytes to send
// joins the queue.
type turns struct{ first, last *Conn }

func (t *turns) push(c *Conn) {
	c.waits = true
	if t.first == nil {
		t.first = c
	} else {
		t.last.behind = c
	}
	t.last = c
}

// The method "pop" removes the first Conn of the queue.
func (t *turns) pop() {
	c := t.first
	t.first, c.behind, c.waits = c.behind, nil, false
	if t.first == nil {
		t.last = nil
	}
}

// When send buffers have become free, the method "room" sends the pending messages of the Conns of
// an endpoint.
func (n *Node) room(ep *btl.Endpoint) {
	p := n.peers[ep]
	if p == nil {
		return
	}
	for len(p.refused) > 0 && send(ep, n.cfg.Tag, &p.refused[0], nil, nil) == nil {
		p.refused = p.refused[1:]
	}
	for c := p.waiting.first; c != nil; c = p.waiting.first {
		more, again := false, false
		if !c.gone() {
			more, again = c.send(1)
		}
		if again {
			break
		}
		if p.waiting.pop(); more {
			p.waiting.push(c)
		}
	}
	n.forget(ep)
}
