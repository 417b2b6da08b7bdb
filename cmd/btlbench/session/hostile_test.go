package session

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"

	// Tests in this process need a network that reaches within the process.
	_ "gobtl/fabric/mem"
)

// serveHere runs a server in this process and returns its address. It ends with the test.
func serveHere(t *testing.T) string {
	t.Helper()
	return serveWith(t, Options{Timeout: 5 * time.Second})
}

func serveWith(t *testing.T, o Options) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveAt(t, listener, NewServer(o, ServerConfig{
		Clients: 2, Opened: func(*layers.Side, int) {}, Log: t.Logf,
		Served: func(net.Addr, []*Served) {},
	}))
}

// serveAt runs a server until the end of the test.
func serveAt(t *testing.T, listener net.Listener, s *Server) (addr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended with %v", err)
		}
	})
	return listener.Addr().String()
}

// TestBusy has a third client while two are served, of a server that serves two at a time.
func TestBusy(t *testing.T) {
	addr := serveHere(t)
	var last *controlConn
	for range 2 {
		c, err := dialControl(t.Context(), addr, "", 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		last = c
	}
	if _, err := dialControl(t.Context(), addr, "", 5*time.Second); err == nil ||
		!strings.Contains(err.Error(), "busy: this server serves 2 at a time") {
		t.Errorf("a third client: %v", err)
	}
	last.close()
	dialIdle(t, addr).close() // It has the place of the one that left.
}

// handed is a listener to which a test hands connections.
type handed chan net.Conn

func (h handed) Accept() (net.Conn, error) {
	if c := <-h; c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (h handed) Close() error { close(h); return nil }
func (handed) Addr() net.Addr { return &net.TCPAddr{} }

// fromConn is a connection from a chosen address.
type fromConn struct {
	net.Conn
	from net.Addr
}

func (c fromConn) RemoteAddr() net.Addr { return c.from }

// TestPlacesOfOneNetwork: clients from one IPv6 network of 64 bits count as those of one host,
// because one host can use all addresses of such a network.
func TestPlacesOfOneNetwork(t *testing.T) {
	s := NewServer(Options{Timeout: 20 * time.Second}, ServerConfig{
		Clients: 8, Opened: func(*layers.Side, int) {}, Log: t.Logf,
		Served: func(net.Addr, []*Served) {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	listener, ended := make(handed), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	var clients []*controlConn
	for i, ip := range []string{"2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"} {
		near, far := net.Pipe()
		listener <- fromConn{near, &net.TCPAddr{IP: net.ParseIP(ip), Port: 4000 + i}}
		c := newControlConn(far)
		clients = append(clients, c)
		if err := c.send(newHello(""), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if m, err := c.receive(10 * time.Second); err != nil || m.Type != msgHello {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	s.lock.Lock()
	if len(s.hosts) != 2 {
		t.Errorf("clients of two networks are of the hosts %v", s.hosts)
	}
	s.lock.Unlock()
	for _, c := range clients {
		c.close()
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOnce has a server that ends after a run: it serves all streams of that run, and no other
// client, and ends when the last of them has left.
func TestOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	s := NewServer(Options{Timeout: 5 * time.Second}, ServerConfig{
		Clients: 4, Once: true, Opened: func(*layers.Side, int) {}, Log: t.Logf,
		Served: func(net.Addr, []*Served) {},
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), listener) }()
	var streams []*controlConn
	for range 2 {
		c, err := dialControl(t.Context(), addr, "mine", 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, c)
	}
	for _, run := range []string{"", "other"} {
		if _, err := dialControl(t.Context(), addr, run, 5*time.Second); err == nil ||
			!strings.Contains(err.Error(), "ends after it") {
			t.Errorf("a client of run %q: %v", run, err)
		}
	}
	long := strings.Repeat("x", runBytesMax+1)
	if _, err := dialControl(t.Context(), addr, long, time.Second); err == nil {
		t.Error("a name without end is taken")
	}
	streams[0].close()
	select {
	case err := <-ended:
		t.Fatalf("the server has ended beside a stream: %v", err)
	case <-time.After(50 * time.Millisecond): // It has had the time to.
	}
	late, err := dialControl(t.Context(), addr, "mine", 5*time.Second)
	if err != nil {
		t.Fatalf("a stream beside the last one: %v", err)
	}
	late.close()
	streams[1].close()
	if err := <-ended; !errors.Is(err, errPeerGone) {
		t.Errorf("the server ended with %v", err)
	}
}

// Strangers with a first line that does not end hold bounded places, and a client that fits is
// served beside them.
func TestEndlessLines(t *testing.T) {
	addr := serveWith(t, Options{Timeout: 20 * time.Second})
	line := make([]byte, 32<<10)
	for i := range line {
		line[i] = 'x'
	}
	var all []net.Conn
	for range 4 * guestsMax {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = c.Write(line) // It may have lost its place.
		all = append(all, c)
	}
	for i, c := range all[:2*guestsMax] {
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("stranger %d of %d has kept its place", i, len(all))
		}
	}
	c, err := dialControl(t.Context(), addr, "", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.close()
}

// A client gets no longer time-out than the server's own, and is told so.
func TestPatience(t *testing.T) {
	addr := serveHere(t)
	for _, cfg := range []layers.Config{
		{PeerTimeoutNs: int64(24 * time.Hour), TimeoutNs: 1e9},
		{PeerTimeoutNs: 1e9, TimeoutNs: int64(24 * time.Hour)},
	} {
		cfg.Provider, cfg.Layers = "mem/local", []string{plan.LayerBTL}
		c := dialIdle(t, addr)
		err := c.send(&message{Type: msgSetup, Setup: &setupMsg{Config: cfg}}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.receive(5 * time.Second); err == nil ||
			!strings.Contains(err.Error(), "--patience") {
			t.Errorf("a time-out of a day: %v", err)
		}
		c.close()
	}
}

// TestGrantedSet: a client's tunables do not make the server allocate or wait beyond its bounds.
func TestGrantedSet(t *testing.T) {
	addr := serveHere(t)
	for set, want := range map[string]string{
		"fragments_max=1048576": "serve --set", "send_buffers=65536": "serve --set",
		"recv_depth=65536": "serve --set", "window_packets=65536": "serve --set",
		"peers_max=1048576": "serve --set", "peer_timeout=24h": "--patience",
		"handshake_timeout=24h": "--patience", "away=24h": "--patience",
		"reassembly_bytes_max=1099511627776": "serve --set", "kept_packets=1048576": "serve --set",
		"recv_buffer_bytes=1073741823": "serve --set", "tx_depth=65536": "serve --set",
		"fragment_bytes_max=4294967295": "serve --set", "regions_max=65536": "serve --set",
		"keep_alive=24h": "--patience", "keep_alive=-1ns": "serve --set",
		"advertise=127.0.0.1:1": "serve --set", "window_packets=16384": "",
	} {
		cfg := layers.Config{
			Provider: "mem/local", Layers: []string{plan.LayerBTL}, PeerTimeoutNs: 1e9, TimeoutNs: 1e9,
			Set: []string{set},
		}
		c := dialIdle(t, addr)
		err := c.send(&message{Type: msgSetup, Setup: &setupMsg{Config: cfg}}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.receive(5 * time.Second)
		granted := err == nil
		if granted != (want == "") || !granted && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
		c.close()
	}
}

// startRound starts a round at a server of this process and then says nothing more.
func startRound(t *testing.T, spec *plan.Spec, set ...string) (*Client, error) {
	t.Helper()
	f := &plan.Flags{
		Provider: "mem/local", Layer: spec.Layer, Set: set,
		PeerTimeout: time.Duration(spec.PeerTimeoutNs), Wait: "event",
	}
	c, err := open(t.Context(), serveHere(t), "", f, Options{Timeout: 5 * time.Second}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	_, err = c.ask(&message{Type: msgRound, Round: spec}, msgReady, 5*time.Second, 20*time.Second)
	return c, err
}

// A server refuses a round of messages larger than its transport carries, before it allocates
// memory for them, and tells its limit.
func TestRoundBeyondTransport(t *testing.T) {
	for _, test := range []string{plan.TestPutBW, plan.TestPutLat, plan.TestGetBW, plan.TestBW} {
		spec := &plan.Spec{
			Test: test, Layer: plan.LayerBTL, SizeBytes: 16 << 20, Window: 2,
			PeerTimeoutNs: int64(5 * time.Second),
		}
		_, err := startRound(t, spec, "fragment_bytes_max=65536")
		if err == nil || !strings.Contains(err.Error(), "a message has 0 to 64K bytes") {
			t.Errorf("%s: %v", test, err)
		}
	}
}

// A client that sends no datagram of a round of the layer raw loses its place, as does a client
// whose connection of the layer runner has ended.
func TestSilentRound(t *testing.T) {
	for _, spec := range []*plan.Spec{
		{Test: plan.TestLat, Layer: plan.LayerRaw},
		{Test: plan.TestBW, Layer: plan.LayerRaw},
		{Test: plan.TestBiBW, Layer: plan.LayerRaw},
		{Test: plan.TestBW, Layer: plan.LayerRunner},
	} {
		spec.SizeBytes, spec.Window, spec.PeerTimeoutNs = 8, 1, int64(200*time.Millisecond)
		c, err := startRound(t, spec)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Layer == plan.LayerRunner {
			c.Side.Close()
			c.Side = nil
		}
		_, err = c.await(msgResult, 20*time.Second)
		var remote *remoteError
		if !errors.As(err, &remote) {
			t.Errorf("%v: the round of a silent client goes on: %v", spec, err)
		}
	}
}

// TestHostileClient sends a server what a well-behaved client does not.
func TestHostileClient(t *testing.T) {
	addr := serveHere(t)
	good := layers.Config{
		Provider: "mem/local", Layers: []string{plan.LayerBTL}, PeerTimeoutNs: 1e9, TimeoutNs: 1e9,
	}
	change := func(f func(*layers.Config)) *message {
		cfg := good
		f(&cfg)
		return &message{Type: msgSetup, Setup: &setupMsg{Config: cfg}}
	}
	for name, m := range map[string]*message{
		"no setup":        {Type: msgRound},
		"empty setup":     {Type: msgSetup},
		"unknown layer":   change(func(c *layers.Config) { c.Layers = []string{"x"} }),
		"no layer":        change(func(c *layers.Config) { c.Layers = nil }),
		"many layers":     change(func(c *layers.Config) { c.Layers = []string{"btl", "btl", "btl"} }),
		"no timeout":      change(func(c *layers.Config) { c.TimeoutNs = 0 }),
		"endless timeout": change(func(c *layers.Config) { c.PeerTimeoutNs = 1 << 62 }),
		"provider":        change(func(c *layers.Config) { c.Provider = "mem/remote" }),
		"faults":          change(func(c *layers.Config) { c.Impair = "loss=200%" }),
		"profile":         change(func(c *layers.Config) { c.Profile = "nonsense" }),
		"mtu":             change(func(c *layers.Config) { c.MTUBytes = 10 }),
		"setting":         change(func(c *layers.Config) { c.Set = []string{"", "=", "a=b"} }),
	} {
		c := dialIdle(t, addr)
		if err := c.send(m, time.Second); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var remote *remoteError
		if _, err := c.receive(10 * time.Second); !errors.As(err, &remote) {
			t.Errorf("%s: answered by %v", name, err)
		} else if strings.Contains(err.Error(), "internal error") {
			t.Errorf("%s: %v", name, err)
		}
		c.close()
	}
}

// dialIdle connects to a server as soon as it has done with its client.
func dialIdle(t *testing.T, addr string) *controlConn {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		c, err := dialControl(t.Context(), addr, "", 5*time.Second)
		if err == nil {
			return c
		}
		if !strings.Contains(err.Error(), "busy") || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
