//go:build linux

package udp

import (
	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

var _ fabric.Sourcer = (*endpoint)(nil)

// AppendSource implements fabric.Sourcer. The sender of a datagram that an earlier Poll has
// received is stored in the datagram's entry of the field pending. The entry of a reported
// datagram is not reused before the next Poll.
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

// from returns the Addr of the sender of a message. from caches the Addr of the latest sender.
func (r *receiver) from(row int) fabric.Addr {
	name, peers := &r.names[row], &r.domain.peers
	if *name != r.lastFrom || r.lastSeq != peers.changes {
		r.lastFrom, r.lastSeq = *name, peers.changes
		r.lastAddr = peers.find(name.addrPort())
	}
	return r.lastAddr
}
