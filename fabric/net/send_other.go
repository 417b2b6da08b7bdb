//go:build !unix

package net

import "net"

// A sender sends the datagrams of a socket. If the socket's send buffer is full, it is possible
// that the method "send" of a sender waits until the send buffer has room.
type sender struct{ conn *net.UDPConn }

func newSender(conn *net.UDPConn) (*sender, error) { return &sender{conn}, nil }

func (s *sender) send(b []byte, p *peer) error {
	_, err := s.conn.WriteToUDPAddrPort(b, p.to)
	return err
}
