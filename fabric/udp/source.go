//go:build linux

package udp

import (
	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

var _ fabric.Sourcer = (*endpoint)(nil)

// AppendSource implements fabric.Sourcer. If an earlier Poll than the latest has received the
// datagram from the kernel, AppendSource finds the sender in the datagram's entry of the queue
// "pending". The next Poll can reuse the entry of a datagram that the latest Poll has reported.
func (e *endpoint) AppendSource(dst []byte, c *fabric.Completion) []byte {
	r := &e.rx
	var from *sockaddr
	switch at := int(c.Origin); {
	case at < rxRows:
		from = &r.names[at]
	case at < rxRows+len(r.pending):
		from = &r.pending[at-rxRows].from
	default:
		return dst
	}
	if ap := from.addrPort(); ap.IsValid() {
		return inet.AppendName(dst, ap)
	}
	return dst
}

// The method "from" returns the Addr of the sender of a message, and keeps the sender and the Addr
// in a cache with one entry.
func (r *receiver) from(row int) fabric.Addr {
	name, peers := &r.names[row], &r.domain.peers
	if *name != r.lastFrom || r.lastSeq != peers.changes {
		r.lastFrom, r.lastSeq = *name, peers.changes
		r.lastAddr = peers.find(name.addrPort())
	}
	return r.lastAddr
}
