package conn

import (
	"context"

	"gobtl/btl"
)

// Held is the memory that Conns which have ended hold, and how many Conns are in the backlog of a
// service.
func (n *Node) Held(service string) (bytes int64, backlog int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		bytes = n.gone.Bytes()
		if l := n.listeners[service]; l != nil {
			backlog = len(l.backlog)
		}
		return nil
	})
	return bytes, backlog
}

// Unsent is how many bytes of small Writes are not sent yet.
func (c *Conn) Unsent() int { return len(c.buffer.unsent()) }
