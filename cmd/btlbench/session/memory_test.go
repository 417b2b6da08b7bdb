package session

import (
	"net"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// The clients of one host get three quarters of the memory of a server, or all of it for a server
// of one run, and those of another host get the rest.
func TestMemoryByHost(t *testing.T) {
	for _, once := range []bool{false, true} {
		m := newMemory(400, once)
		share := int64(300)
		if once {
			share = 400
		}
		first, second, other := &loan{of: m, host: "a"}, &loan{of: m, host: "a"}, &loan{of: m, host: "b"}
		if err := first.grow(200); err != nil {
			t.Error(err)
		}
		if err := first.grow(100); err != nil || m.used != 200 {
			t.Errorf("%d bytes for a smaller round: %v", m.used, err)
		}
		if err := second.grow(share - 199); err == nil || !strings.Contains(err.Error(), "--memory") {
			t.Errorf("once %v: more than the share of a host: %v", once, err)
		}
		if err := second.grow(share - 200); err != nil {
			t.Errorf("once %v: the share of a host: %v", once, err)
		}
		if err := other.grow(401 - share); err == nil || !strings.Contains(err.Error(), "--memory") {
			t.Errorf("once %v: more than is free: %v", once, err)
		}
		if err := other.grow(400 - share); err != nil {
			t.Errorf("once %v: what is free: %v", once, err)
		}
		for _, l := range []*loan{first, second, other} {
			l.giveBack()
		}
		if m.used != 0 || len(m.hosts) != 0 {
			t.Errorf("%d bytes and %d hosts are left", m.used, len(m.hosts))
		}
	}
	if err := (&loan{of: newMemory(0, false)}).grow(1 << 60); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// A server takes the memory of a round before it allocates it, tells a client that it has none, and
// gets it back at the end of the client.
func TestMemoryOfRounds(t *testing.T) {
	const size = 1 << 20
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{Timeout: 5 * time.Second}, ServerConfig{
		Clients: 4, Memory: 5 * size, Opened: func(*layers.Side, int) {}, Log: t.Logf,
		Served: func(net.Addr, []*Served) {},
	})
	addr := serveAt(t, listener, s)
	ask := func(test string) (*Client, error) {
		f := &plan.Flags{
			Provider: "mem/local", Layer: plan.LayerBTL, PeerTimeout: 5 * time.Second, Wait: "event",
		}
		c, err := open(t.Context(), addr, "", f, Options{Timeout: 5 * time.Second}, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.ask(&message{Type: msgRound, Round: &plan.Spec{
			Test: test, Layer: plan.LayerBTL, SizeBytes: size, Window: 1,
			PeerTimeoutNs: int64(5 * time.Second),
		}}, msgReady, 5*time.Second, 20*time.Second)
		return c, err
	}
	first, err := ask(plan.TestGetLat) // a message, and the memory that the client may read
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []string{plan.TestGetLat, plan.TestPutBW, plan.TestNotice} {
		c, err := ask(test)
		if err == nil || !strings.Contains(err.Error(), "--memory") {
			t.Errorf("%s beyond the share of a host: %v", test, err)
		}
		c.Close()
	}
	first.Close()
	used := func() int64 {
		s.memory.lock.Lock()
		defer s.memory.lock.Unlock()
		return s.memory.used
	}
	for deadline := time.Now().Add(20 * time.Second); used() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes belong to clients that have ended", used())
		}
	}
	c, err := ask(plan.TestPutBW)
	if err != nil {
		t.Errorf("beside no client: %v", err)
	}
	c.Close()
}

// The default sizes and windows of all tests take no more memory than two windows of the largest
// message for each stream.
func TestMemoryOfDefaults(t *testing.T) {
	const most = 128 << 20
	side, err := layers.Open(layers.Config{
		Provider: "mem/local", Layers: []string{plan.LayerBTL}, Server: true,
		PeerTimeoutNs: int64(time.Second), TimeoutNs: int64(time.Second),
	}, layers.NodeHint{}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	f := &plan.Flags{LoadSize: 1 << 20}
	for _, test := range plan.AllTests {
		for _, size := range f.Sizes(test) {
			for _, window := range f.Windows(test, size) {
				r := &layers.Round{Server: true, Spec: plan.Spec{
					Test: test, Layer: plan.LayerBTL, SizeBytes: size, Window: window, Verify: true,
					Load: plan.LoadMax, LoadBytes: int(f.LoadSize),
				}}
				if n := side.Layer(plan.LayerBTL).Memory(r); n > most {
					t.Errorf("%v in a window of %d takes %d bytes", &r.Spec, window, n)
				}
			}
		}
	}
}
