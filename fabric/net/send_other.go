//go:build !unix

package net

import "net"

// A sender sends datagrams through a socket. If the socket's send buffer is full, the method "send"
// of a sender might block until the send buffer has room.
type sender struct{ conn *net.UDPConn }

func newSender(conn *net.UDPConn) (*sender, error) { return &sender{conn}, nil }

func (s *sender) send(b []byte, p *peer) error {
	_, err := s.conn.WriteToUDPAddrPort(b, p.to)
	return err
}
