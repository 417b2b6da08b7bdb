package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/reliability"
)

// overSockets are networks whose receive queue is the buffer of a UDP socket.
func overSockets(fx *fixture) bool {
	return strings.HasPrefix(fx.name, "udp") || strings.HasPrefix(fx.name, "ofi_udp")
}

// testAway sends a thousand messages to a receiver that is away for a moment: what is granted fits
// the sockets' buffers, so that the kernel drops nothing.
func testAway(t *testing.T, fx *fixture) {
	for _, size := range []int{16, 1400} {
		l := newLab(t, fx, opts{})
		// The system's default buffer, and a window that needs no ACKs to grow.
		cfg := btl.Config{RecvBufferBytes: -1, PackBytes: 1}
		cfg.Rules.Congestion = reliability.CongestionFixed
		receiver, sender := l.add(cfg), l.add(cfg)
		ep := l.connect(sender, receiver)
		s := l.stream(sender, ep, receiver, spec{count: 1000, size: fixed(size)})
		receiver.at.pause(50 * time.Millisecond)
		l.allDone("messages to one that was away", s)
		for socket, drops := range socketDrops(t) {
			if drops != "0" {
				t.Errorf("messages of %d bytes: the kernel dropped %s at %s", size, drops, socket)
			}
		}
		l.settle()
	}
}

// socketDrops is what the kernel dropped at each UDP socket of this process, by local address.
func socketDrops(t *testing.T) map[string]string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip("needs Linux' /proc")
	}
	mine := make(map[string]bool) // by inode
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			mine[strings.Trim(to, "socket:[]")] = true
		}
	}
	drops := make(map[string]string)
	for _, file := range []string{"/proc/self/net/udp", "/proc/self/net/udp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(text)) {
			const local, inode = 1, 9
			f := strings.Fields(line)
			if len(f) > inode && mine[f[inode]] {
				drops[f[local]] = f[len(f)-1]
			}
		}
	}
	if len(drops) == 0 {
		t.Fatal("no UDP socket of this process was found")
	}
	return drops
}
