package session

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/bounded"
	"gobtl/internal/plain"
)

// TestLogOfClients checks that refused clients do not fill the log of a server.
func TestLogOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		s := NewServer(Options{}, ServerConfig{Clients: 1, Log: func(format string, args ...any) {
			lines = append(lines, fmt.Sprintf(format, args...))
		}})
		for range 1000 {
			s.log("client %v refused: %v", "192.0.2.66", "no")
		}
		time.Sleep(time.Second)
		s.log("client %v", "192.0.2.1")
		const left = 1000 - bounded.LinesPerSecond
		if n := len(lines); n != bounded.LinesPerSecond+1 ||
			!strings.HasPrefix(lines[n-1], fmt.Sprint(left, " more")) ||
			!strings.HasSuffix(lines[n-1], "client 192.0.2.1") {
			t.Errorf("%d lines: %q", n, lines)
		}
	})
}

// Whatever a client asks for, a line about it is short and printable.
func TestLogOfLongTexts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var lock sync.Mutex
	var lines []string
	s := NewServer(Options{Timeout: 5 * time.Second}, ServerConfig{
		Clients: 4, Opened: func(*layers.Side, int) {}, Served: func(net.Addr, []*Served) {},
		Log: func(format string, args ...any) {
			lock.Lock()
			defer lock.Unlock()
			lines = append(lines, fmt.Sprintf(format, args...))
		},
	})
	addr := serveAt(t, listener, s)
	long := strings.Repeat("\x1bx", 20<<10)
	for _, change := range []func(*layers.Config){
		func(c *layers.Config) { c.Set = []string{long} },
		func(c *layers.Config) { c.Set = []string{"profile=" + long} },
		func(c *layers.Config) { c.Provider = long },
		func(c *layers.Config) { c.Layers = []string{long} },
		func(c *layers.Config) { c.Impair = long },
	} {
		cfg := layers.Config{
			Provider: "mem/local", Layers: []string{plan.LayerBTL}, PeerTimeoutNs: 1e9, TimeoutNs: 1e9,
		}
		change(&cfg)
		c := dialIdle(t, addr)
		err := c.send(&message{Type: msgSetup, Setup: &setupMsg{Config: cfg}}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.receive(5 * time.Second); err == nil {
			t.Error("a long text is granted")
		}
		c.close()
	}
	lock.Lock()
	defer lock.Unlock()
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > plain.LineMax+100 || strings.Contains(line, "\x1b") {
			t.Errorf("a line of %d characters: %.100q", n, line)
		}
	}
}
