//go:build linux

package recovery

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func tcpRole(sp Spec, s *steering) error {
	switch sp.Role {
	case "serve":
		return tcpServe(sp, s)
	case "stream", "pingpong":
		return tcpClient(sp, s)
	}
	return fmt.Errorf("no such role: %q", sp.Role)
}

func tcpServe(sp Spec, s *steering) error {
	l, err := net.Listen("tcp", net.JoinHostPort(sp.Node, "0"))
	if err != nil {
		return err
	}
	defer l.Close()
	if err := s.say(message{Event: "name", Name: l.Addr().String()}); err != nil {
		return err
	}
	go func() {
		<-s.stop
		l.Close()
	}()
	var book ledger
	var mu sync.Mutex
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if sp.Echo {
			_ = blocking(conn, sp.CPU, func(fd int) error { return echoTCP(fd) })
			return
		}
		for buf := make([]byte, 256<<10); ; {
			n, err := conn.Read(buf)
			mu.Lock()
			book.add(sp.Tag, n)
			book.tick(clockNs())
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	<-s.stop
	mu.Lock()
	defer mu.Unlock()
	book.next = 0
	book.tick(clockNs())
	return s.say(message{Event: "report", Report: &Report{Ticks: book.ticks}})
}

// blocking calls f with a blocking socket on a thread of its own, because Go's network poller would
// increase latencies.
func blocking(conn net.Conn, cpu int, f func(fd int) error) error {
	runtime.LockOSThread()
	if err := pin(cpu); err != nil {
		return err
	}
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := conn.Close(); err != nil {
		return err
	}
	fd := int(file.Fd()) // makes it blocking
	return f(fd)
}

func echoTCP(fd int) error {
	var b [8]byte
	for {
		if err := readTCP(fd, b[:]); err != nil {
			return err
		}
		if _, err := unix.Write(fd, b[:]); err != nil {
			return err
		}
	}
}

func readTCP(fd int, b []byte) error {
	for got := 0; got < len(b); {
		n, err := unix.Read(fd, b[got:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		default:
			got += n
		}
	}
	return nil
}

func tcpClient(sp Spec, s *steering) error {
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if sp.Congestion == "" {
			return nil
		}
		e := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, sp.Congestion)
		})
		return errors.Join(err, e)
	}}
	conn, err := dialer.Dial("tcp", sp.Peer)
	if err != nil {
		return err
	}
	if err := s.say(message{Event: "ready"}); err != nil {
		return err
	}
	select {
	case <-s.begin:
	case <-s.stop:
		return nil
	}
	return blocking(conn, sp.CPU, func(fd int) error {
		play := streamTCP
		if sp.Role == "pingpong" {
			play = pingTCP
		}
		if err := play(sp, s, fd, clockNs()+int64(sp.Warm), nil); err != nil {
			return err
		}
		before := tcpCounters(fd)
		r := &Report{Start: clockNs()}
		if err := play(sp, s, fd, r.Start+int64(sp.Each), r); err != nil {
			return err
		}
		r.End = clockNs()
		r.Counters = tcpCounters(fd)
		for name, n := range before {
			r.Counters[name] -= n
		}
		if err := s.say(message{Event: "report", Report: r}); err != nil {
			return err
		}
		<-s.stop
		return nil
	})
}

// tcpCounters has the names of btlHost.counters.
func tcpCounters(fd int) map[string]uint64 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return nil
	}
	again := uint64(info.Total_retrans)
	return map[string]uint64{"sent": uint64(info.Data_segs_out) - again, "resent": again}
}

func streamTCP(sp Spec, s *steering, fd int, until int64, r *Report) error {
	var timeout unix.Timeval
	for mem := make([]byte, sp.SizeBytes); !s.stopped.Load(); {
		left := until - clockNs()
		if left <= 0 {
			break
		}
		timeout = unix.NsecToTimeval(max(left, int64(time.Millisecond)))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
			return err
		}
		n, err := unix.Write(fd, mem)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if r != nil && n > 0 {
			r.Bytes += int64(n)
		}
	}
	return nil
}

func pingTCP(sp Spec, s *steering, fd int, until int64, r *Report) error {
	var took []int64
	b := make([]byte, sp.SizeBytes)
	for now := clockNs(); now < until && !s.stopped.Load(); {
		start := now
		if _, err := unix.Write(fd, b); err != nil {
			return err
		}
		if err := readTCP(fd, b); err != nil {
			return err
		}
		now = clockNs()
		took = append(took, now-start)
	}
	if r != nil {
		r.Messages, r.Latency = len(took), latencyOf(took)
	}
	return nil
}
