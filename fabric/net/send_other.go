//go:build !unix

package net

import "net"

// sender sends the datagrams of a socket. send may wait while the socket's send buffer is full.
type sender struct{ conn *net.UDPConn }

func newSender(conn *net.UDPConn) (*sender, error) { return &sender{conn}, nil }

func (s *sender) send(b []byte, p *peer) error {
	_, err := s.conn.WriteToUDPAddrPort(b, p.to)
	return err
}
