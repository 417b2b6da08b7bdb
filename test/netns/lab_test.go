//go:build linux

package netns

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCable(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	for _, bind := range []string{b.V4.String(), b.V6.String(), b.Zoned()} {
		server := listen(t, b, bind)
		hear(t, server, dial(t, a, server.LocalAddr().String()), 5)
	}
}

func TestDoComesHome(t *testing.T) {
	lab := New(t)
	h := lab.Host("h")
	here := func() string {
		at, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	home, away := here(), ""
	h.Do(func() { away = here() })
	if home == away || here() != home {
		t.Errorf("home %s, away %s, home again %s", home, away, here())
	}
}

// TestSweep leaves a namespace behind as a killed run does.
func TestSweep(t *testing.T) {
	lab := New(t)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	h := Host{Name: "left", NS: prefix + strconv.Itoa(gone.Process.Pid) + "-1", lab: lab}
	if out, err := exec.Command("ip", "netns", "add", h.NS).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	mine := lab.Host("mine")
	New(t)
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), h.NS) || !strings.Contains(string(out), mine.NS) {
		t.Errorf("there are\n%s", out)
	}
}

// TestRouter passes packets through a router, and has it answer one that is too large.
func TestRouter(t *testing.T) {
	lab := New(t)
	a, b, _ := lab.Route(lab.Host("a"), lab.Host("b"), 9000, 1500)
	for _, to := range []netip.Addr{b.V4, b.V6} {
		server := listen(t, b, to.String())
		client := dial(t, a, server.LocalAddr().String())
		raw, err := client.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
			if to.Is6() {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER,
					unix.IPV6_PMTUDISC_DO)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		hear(t, server, client, 1000)
		if _, err := client.Write(make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
		for start := time.Now(); err == nil; time.Sleep(time.Millisecond) {
			if _, err = client.Write(make([]byte, 3000)); time.Since(start) > 5*time.Second {
				t.Fatalf("to %s: the router says nothing about 3000 bytes", to)
			}
		}
		if !errors.Is(err, unix.EMSGSIZE) {
			t.Errorf("to %s: %v", to, err)
		}
		hear(t, server, client, 1001)
	}
}

func listen(t *testing.T, p Port, bind string) (conn net.PacketConn) {
	t.Helper()
	var err error
	p.Host.Do(func() { conn, err = net.ListenPacket("udp", net.JoinHostPort(bind, "0")) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func dial(t *testing.T, p Port, to string) (conn *net.UDPConn) {
	t.Helper()
	var c net.Conn
	var err error
	p.Host.Do(func() { c, err = net.Dial("udp", to) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UDPConn)
}

// hear passes one datagram of some bytes.
func hear(t *testing.T, server net.PacketConn, client net.Conn, sizeBytes int) {
	t.Helper()
	_, err := client.Write(make([]byte, sizeBytes))
	if errors.Is(err, unix.EMSGSIZE) { // what the router said, told once more
		_, err = client.Write(make([]byte, sizeBytes))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := server.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := server.ReadFrom(make([]byte, 1<<16)); err != nil || n != sizeBytes {
		t.Errorf("%v: of %d bytes came %d, %v", client.RemoteAddr(), sizeBytes, n, err)
	}
}
