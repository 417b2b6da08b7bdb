package net

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

const (
	// wantRecvBytes is the size of the receive buffer that is requested if the caller has not set
	// RecvBufferBytes.
	wantRecvBytes = 4 << 20
	// wantSendBytes is the requested size of a socket's send buffer. A send buffer of wantSendBytes
	// has room for several datagrams of the largest size.
	wantSendBytes = 1 << 20
	// leastBytes is the smallest socket buffer size that askFor requests.
	leastBytes = 64 << 10
)

// socket is an open socket.
type socket struct {
	conn      *net.UDPConn
	name      netip.AddrPort // without zone
	recvBytes int            // size of the receive buffer, as the system counts
}

// option is a socket option whose value is a number.
type option struct{ level, name, value int }

func openSocket(l *inet.Local, port uint16, cfg fabric.EndpointConfig) (socket, error) {
	network := fmt.Sprintf("udp%d", l.Version())
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			for _, o := range dontFragment(l.Version()) {
				_ = setOption(fd, o) // older systems lack the option and may fragment
			}
		})
	}}
	at := netip.AddrPortFrom(l.Addr, port)
	opened, err := config.ListenPacket(context.Background(), network, at.String())
	if err != nil {
		return socket{}, newError("bind "+at.String(), err)
	}
	conn, ok := opened.(*net.UDPConn)
	name, err := netip.ParseAddrPort(opened.LocalAddr().String())
	if !ok || err != nil {
		_ = opened.Close()
		return socket{}, fmt.Errorf("net: %v is no UDP socket: %w", opened.LocalAddr(), err)
	}
	name = netip.AddrPortFrom(name.Addr().Unmap().WithZone(""), name.Port())
	s := socket{conn: conn, name: name}
	askFor(wantSendBytes, conn.SetWriteBuffer)
	if cfg.RecvBufferBytes == 0 {
		cfg.RecvBufferBytes = wantRecvBytes
	}
	if cfg.RecvBufferBytes > 0 {
		askFor(cfg.RecvBufferBytes, conn.SetReadBuffer)
	}
	s.recvBytes, err = granted(conn)
	if err != nil {
		_ = conn.Close()
		return socket{}, newError("getsockopt", err)
	}
	return s, nil
}

// askFor requests a socket buffer of the given size. Each time the system refuses a size, askFor
// requests half of this size.
func askFor(sizeBytes int, set func(int) error) {
	for set(sizeBytes) != nil && sizeBytes > leastBytes {
		sizeBytes /= 2
	}
}

func granted(conn *net.UDPConn) (sizeBytes int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { sizeBytes, failed = recvBuffer(fd) })
	return sizeBytes, errors.Join(err, failed)
}

// errnoOf returns the system's error number in an error of Go's package net, or 0 if the error
// contains no such number.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return 0
	}
	return portable(errno)
}

func newError(op string, err error) error {
	errno := errnoOf(err)
	if errno == 0 {
		return fmt.Errorf("net: %s: %w", op, err)
	}
	return sysError{op: op, errno: errno, text: errno.Error()}
}

// sysError is the failure of a system call.
type sysError struct {
	op    string
	errno syscall.Errno
	text  string
}

func (e sysError) Error() string { return family + ": " + e.op + ": " + e.text }

// Unwrap returns the system's error number, so that tests such as errors.Is(err,
// syscall.EADDRINUSE) work.
func (e sysError) Unwrap() error { return e.errno }
