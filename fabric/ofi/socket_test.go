//go:build linux && cgo

package ofi

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gobtl/fabric"
)

// TestTruesize compares the computed capacity with the measured capacity of loopback sockets.
func TestTruesize(t *testing.T) {
	for _, tt := range []struct{ payload, want int }{
		{0, 1280}, {512, 1280}, {1024, 2304}, {1472, 2304}, {8900, 16640}, {65507, 131328},
	} {
		if got := truesizeBytes(tt.payload); got != tt.want {
			t.Errorf("truesizeBytes(%d) = %d, want %d", tt.payload, got, tt.want)
		}
	}
	for _, tt := range []struct{ buffer, mtu, want int }{
		{212992, 1472, 69}, {2097152, 1472, 682}, {8388608, 1472, 2730}, {2304, 1472, 1}, {0, 1472, 1},
	} {
		if got := socketCapacity(tt.buffer, tt.mtu); got != tt.want {
			t.Errorf("socketCapacity(%d, %d) = %d, want %d", tt.buffer, tt.mtu, got, tt.want)
		}
	}
}

func TestParseFdinfo(t *testing.T) {
	const text = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n" +
		"tfd:        6 events:       19 data:                0  pos:0 ino:3c sdev:8\n" +
		"tfd:       12 events:       19 data: ffffffffffffffff  pos:0 ino:3d sdev:8\n" +
		"tfd:\ntfd: x\n"
	if got := parseFdinfo(strings.NewReader(text)); !slices.Equal(got, []int{6, 12}) {
		t.Errorf("parseFdinfo = %v, want [6 12]", got)
	}
}

// TestFindSocket searches for a socket that no epoll instance watches, as for a provider without a
// wait descriptor.
func TestFindSocket(t *testing.T) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	fd, err := findSocket(-1, local)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sizeSocket(fd, 100_000); err != nil {
		t.Fatal(err)
	}
	if n, err := sizeSocket(fd, 0); err != nil || n != 200_000 {
		t.Errorf("receive buffer is %d, %v; want 200000", n, err)
	}
	if fd, err := findSocket(-1, netip.MustParseAddrPort("127.0.0.1:1")); err == nil {
		t.Errorf("found descriptor %d for an address that nobody has", fd)
	}
	if fd, err := findSocket(fd, local); err != nil {
		t.Errorf("a wait descriptor that is no epoll instance hides the socket: %d, %v", fd, err)
	}
}

func TestAtMost(t *testing.T) {
	for _, tt := range []struct{ timeout, most, want time.Duration }{
		{-1, 5, 5}, {0, 5, 0}, {4, 5, 4}, {6, 5, 5},
	} {
		if got := atMost(tt.timeout, tt.most); got != tt.want {
			t.Errorf("atMost(%d, %d) = %d, want %d", tt.timeout, tt.most, got, tt.want)
		}
	}
}

// TestSocketIsWatchedByNobody checks that no epoll instance watches the socket, because a watching
// instance costs time for every arrival.
func TestSocketIsWatchedByNobody(t *testing.T) {
	for _, prov := range []string{udpName, offloadName} {
		d := open(t, prov, fabric.DomainConfig{Buffers: 8})
		e := openEndpoint(t, d, fabric.EndpointConfig{}).(*endpoint)
		if local := addrOf(t, e); !isSocket(e.waitFd, local) {
			t.Errorf("%s: a sleep waits for descriptor %d, which is not the socket", prov, e.waitFd)
		}
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			fd, err := strconv.Atoi(entry.Name())
			if err == nil && slices.Contains(watched(fd), e.waitFd) {
				t.Errorf("%s: epoll instance %d watches the socket", prov, fd)
			}
		}
	}
}
