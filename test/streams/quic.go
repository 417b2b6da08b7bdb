package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// protocol is the protocol name for TLS.
const protocol = "streams"

// quicStream adds the missing methods of net.Conn to a QUIC stream.
type quicStream struct {
	*quic.Stream
	conn *quic.Conn
}

func (s quicStream) LocalAddr() net.Addr  { return s.conn.LocalAddr() }
func (s quicStream) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }

// quicListener accepts the streams of all connections.
type quicListener struct {
	*quic.Listener
	streams chan net.Conn
}

// limits allows a connection as many streams as a load needs.
func limits() *quic.Config { return &quic.Config{MaxIncomingStreams: 1 << 12} }

func listenQUIC(host string) (net.Listener, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	l, err := quic.ListenAddr(net.JoinHostPort(host, "0"), &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: private}},
		NextProtos:   []string{protocol},
	}, limits())
	if err != nil {
		return nil, err
	}
	all := &quicListener{l, make(chan net.Conn)}
	go all.accept()
	return all, nil
}

// accept accepts connections until the process ends.
func (l *quicListener) accept() {
	for {
		conn, err := l.Listener.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				l.streams <- quicStream{stream, conn}
			}
		}()
	}
}

func (l *quicListener) Accept() (net.Conn, error) { return <-l.streams, nil }

type quicDialer struct{ conn *quic.Conn }

func dialQUIC(ctx context.Context, address string) (dialer, error) {
	conn, err := quic.DialAddr(ctx, address, &tls.Config{
		InsecureSkipVerify: true, // It is the parent's other child.
		NextProtos:         []string{protocol},
	}, limits())
	return quicDialer{conn}, err
}

func (d quicDialer) open(ctx context.Context) (net.Conn, error) {
	stream, err := d.conn.OpenStreamSync(ctx)
	return quicStream{stream, d.conn}, err
}

func (d quicDialer) close() error { return d.conn.CloseWithError(0, "") }
