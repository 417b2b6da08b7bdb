package gobtl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gobtl"
	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T, cfg gobtl.Config, address string) *gobtl.Node {
	t.Helper()
	n, err := cfg.Listen(address)
	must(t, err)
	t.Cleanup(func() { closeNode(t, n) })
	return n
}

func open(t *testing.T, cfg gobtl.Config) *gobtl.Node {
	t.Helper()
	n, err := cfg.Open()
	must(t, err)
	t.Cleanup(func() { closeNode(t, n) })
	return n
}

func closeNode(t *testing.T, n *gobtl.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, n *gobtl.Node, address string) *gobtl.Peer {
	t.Helper()
	p, err := n.Dial(t.Context(), address)
	must(t, err)
	return p
}

// Everything that a Peer can do, between two Nodes of which one listens.
func TestAllOfAPeer(t *testing.T) {
	for _, providers := range [][2]string{
		{"udp", "udp"}, {"net", "net"}, {"udp", "net"}, {"net", "udp"},
	} {
		t.Run(providers[0]+" "+providers[1], func(t *testing.T) {
			allOfAPeer(t, gobtl.Config{Provider: providers[0]}, gobtl.Config{Provider: providers[1]},
				providers[1])
		})
	}
	t.Run("memory", func(t *testing.T) {
		needMemory(t)
		cfg := gobtl.Config{SharedMemory: true}
		allOfAPeer(t, cfg, cfg, "shm")
	})
}

// allOfAPeer does it over a network, which is another one than UDP if both may use shared memory.
func allOfAPeer(t *testing.T, listening, dialling gobtl.Config, network string) {
	server, client := listen(t, listening, "127.0.0.1:0"), open(t, dialling)
	must(t, server.Handle("greet", func(_ context.Context, req *gobtl.Request) ([]byte, error) {
		if req.Method != "greet" || req.Peer == nil {
			return nil, fmt.Errorf("%q of %v", req.Method, req.Peer)
		}
		return append([]byte("hello "), req.Body...), nil
	}))
	got := make(chan string, 1)
	must(t, server.HandleMessage(3, func(_ *gobtl.Peer, data []byte) { got <- string(data) }))
	peer := dial(t, client, server.Address())
	if peer.Network() != network {
		t.Errorf("the network is %s, want %s", peer.Network(), network)
	}
	if peer.Address() != server.Address() {
		t.Errorf("the peer is at %s, dialled was %s", peer.Address(), server.Address())
	}
	ctx := t.Context()

	answer, err := peer.Call(ctx, "greet", []byte("Ada"))
	if err != nil || string(answer) != "hello Ada" {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := peer.Call(ctx, "nothing", nil); !errors.Is(err, call.ErrMethod) {
		t.Errorf("a method that is not there: %v", err)
	}
	must(t, peer.Send(ctx, 3, []byte("message")))
	if m := <-got; m != "message" {
		t.Errorf("message %q", m)
	}
	if err := peer.Send(ctx, 4, nil); !errors.Is(err, btl.ErrNoHandler) {
		t.Errorf("a tag without handler: %v", err)
	}
	must(t, peer.Enqueue(ctx, []byte("queued")))
	msg, err := server.Take(ctx)
	if err != nil || string(msg.Data) != "queued" || msg.Peer == nil {
		t.Errorf("%q, %v", msg.Data, err)
	}
	testStream(t, server, peer)
	testMemory(t, msg.Peer, peer)
	// The server calls its client.
	must(t, client.Handle("back", func(context.Context, *gobtl.Request) ([]byte, error) {
		return nil, errors.New("not today")
	}))
	var remote call.RemoteError
	if _, err := msg.Peer.Call(ctx, "back", nil); !errors.As(err, &remote) || remote != "not today" {
		t.Errorf("a call of the client: %v", err)
	}
}

func testStream(t *testing.T, server *gobtl.Node, peer *gobtl.Peer) {
	t.Helper()
	out, err := peer.OpenStream(t.Context())
	must(t, err)
	in, err := server.Accept()
	must(t, err)
	sent := bytes.Repeat([]byte("stream "), 100_000)
	go func() {
		_, _ = out.Write(sent)
		_ = out.Close()
	}()
	if all, err := io.ReadAll(in); err != nil || !bytes.Equal(all, sent) {
		t.Errorf("%d of %d bytes, %v", len(all), len(sent), err)
	}
	must(t, in.Close())
}

func testMemory(t *testing.T, owner, user *gobtl.Peer) {
	t.Helper()
	ctx, mem := t.Context(), make([]byte, 100)
	region, err := owner.Expose(ctx, mem, btl.RemoteWrite|btl.RemoteRead)
	must(t, err)
	must(t, user.Put(ctx, region.Handle(), 10, []byte("there")))
	back := make([]byte, 7)
	must(t, user.Get(ctx, region.Handle(), 9, back))
	must(t, region.Close(ctx)) // From here on the memory is this side's alone.
	if string(back) != "\x00there\x00" || string(mem[10:15]) != "there" {
		t.Errorf("%q", back)
	}
	if err := user.Put(ctx, region.Handle(), 0, []byte("x")); !errors.Is(err, btl.ErrRemoteAccess) {
		t.Errorf("a region that was taken back: %v", err)
	}
}

// A Node that listens at ":0" is reached by each address of this host, at the same port.
func TestListenEverywhere(t *testing.T) {
	server := listen(t, gobtl.Config{}, ":0")
	must(t, server.Handle("who", func(_ context.Context, req *gobtl.Request) ([]byte, error) {
		return []byte(req.Peer.Link().Address()), nil
	}))
	client := open(t, gobtl.Config{})
	all := server.Addresses()
	_, port, err := net.SplitHostPort(all[0])
	must(t, err)
	for _, address := range all {
		if _, p, err := net.SplitHostPort(address); err != nil || p != port {
			t.Errorf("%s, the first one is %s: %v", address, all[0], err)
		}
		answer, err := dial(t, client, address).Call(t.Context(), "who", nil)
		if err != nil || string(answer) != address {
			t.Errorf("%s says %q, %v", address, answer, err)
		}
	}
	for _, address := range []string{"localhost:" + port, ":" + port} {
		if _, err := dial(t, client, address).Call(t.Context(), "who", nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A Node behind a NAT tells peers the address of the NAT. Links that dial do not tell that address.
func TestAdvertise(t *testing.T) {
	const outside = "192.0.2.9:4000"
	cfg := gobtl.Config{Transport: btl.Config{Advertise: outside}}
	server := listen(t, cfg, "127.0.0.1:0")
	if got := server.Address(); got != outside {
		t.Errorf("Address: %s, want %s", got, outside)
	}
	other := listen(t, gobtl.Config{}, "127.0.0.1:0")
	peer := dial(t, open(t, cfg), other.Address())
	if got := peer.Link().Address(); got == outside {
		t.Error("a link that dials tells the address of the NAT, too")
	}
	n, err := cfg.Listen(":0")
	if err == nil {
		closeNode(t, n)
	}
	if !errors.Is(err, gobtl.ErrAddress) || !strings.Contains(err.Error(), outside) {
		t.Errorf("one advertised address for all addresses of this host: %v", err)
	}
}

// Unusable addresses: the error names the address and its fault.
func TestBadAddresses(t *testing.T) {
	for address, says := range map[string]string{
		"server": "has no port", "": "has no port", "127.0.0.1:99999": `port "99999"`,
		"127.0.0.1:65535": "up to 65534", "127.0.0.1:http": `port "http"`,
		"192.0.2.77:4000":           "192.0.2.77",
		"no-such-host.invalid:4000": "no-such-host.invalid",
	} {
		n, err := gobtl.Listen(address)
		if err == nil {
			closeNode(t, n)
		}
		if !errors.Is(err, gobtl.ErrAddress) || !strings.Contains(err.Error(), says) {
			t.Errorf("Listen(%q): %v, want it to say %q", address, err, says)
		}
	}
	client := open(t, gobtl.Config{})
	for _, address := range []string{"server", "127.0.0.1:0", "127.0.0.1:99999", "x:y:z"} {
		if _, err := client.Dial(t.Context(), address); !errors.Is(err, gobtl.ErrAddress) ||
			!strings.Contains(err.Error(), address) {
			t.Errorf("Dial(%q): %v", address, err)
		}
	}
	if _, err := client.Dial(t.Context(), "no-such-host.invalid:4000"); err == nil ||
		!strings.Contains(err.Error(), "no-such-host.invalid") {
		t.Errorf("a host that does not exist: %v", err)
	}
}

// A port that is taken is named, and so is the provider's error.
func TestPortInUse(t *testing.T) {
	server := listen(t, gobtl.Config{}, "127.0.0.1:0")
	n, err := gobtl.Listen(server.Address())
	if err == nil {
		closeNode(t, n)
		t.Fatal("two Nodes listen at one port")
	}
	if !strings.Contains(err.Error(), server.Address()) || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
}

// If no node listens at an address, Dial returns an error with the address when the time for an
// answer is over.
func TestNobodyListens(t *testing.T) {
	cfg := gobtl.Config{Transport: btl.Config{HandshakeTimeout: 100 * time.Millisecond}}
	client := open(t, cfg)
	closed := listen(t, gobtl.Config{}, "127.0.0.1:0")
	address := closed.Address()
	closeNode(t, closed)
	_, err := client.Dial(t.Context(), address)
	if !errors.Is(err, btl.ErrUnreachable) || !strings.Contains(err.Error(), address) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Dial(ctx, address); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// Where the kernel tells that nobody listens at a port, Dial ends by that and not by a timeout, and
// a port whose owner is silent is not taken for such a one.
func TestNobodyListensIsTold(t *testing.T) {
	for name, host := range map[string]string{"ip4": "127.0.0.1", "ip6": "::1"} {
		t.Run(name, func(t *testing.T) {
			silent, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
			if err != nil {
				testenv.Missing(t, "needs the address %s: %v", host, err)
			}
			address := silent.LocalAddr().String()
			brief := gobtl.Config{Transport: btl.Config{HandshakeTimeout: 100 * time.Millisecond}}
			_, err = open(t, brief).Dial(t.Context(), address)
			if !errors.Is(err, btl.ErrUnreachable) || errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a silent owner: %v", err)
			}
			must(t, silent.Close())
			patient := gobtl.Config{Transport: btl.Config{HandshakeTimeout: time.Minute}}
			_, err = open(t, patient).Dial(t.Context(), address)
			if !errors.Is(err, btl.ErrUnreachable) || !errors.Is(err, syscall.ECONNREFUSED) ||
				!strings.Contains(err.Error(), address+": ") {
				t.Errorf("no owner: %v", err)
			}
		})
	}
}

// A handler that blocks is reported in the log of its own Node, and so are peers.
func TestLog(t *testing.T) {
	var text lockedBuffer
	const bound, blocks = 20 * time.Millisecond, 250 * time.Millisecond // no loss of the CPU
	server := listen(t, gobtl.Config{
		Log: slog.New(slog.NewTextHandler(&text, nil)), Runner: runner.Config{LongPass: bound},
	}, "127.0.0.1:0")
	must(t, server.HandleMessage(1, func(*gobtl.Peer, []byte) { time.Sleep(blocks) }))
	client := open(t, gobtl.Config{})
	peer := dial(t, client, server.Address())
	must(t, peer.Send(t.Context(), 1, nil))
	must(t, peer.Send(t.Context(), 1, nil)) // The pass of the first one is over.
	must(t, peer.Close(t.Context()))
	closeNode(t, server)
	for _, want := range []string{
		"a handler kept the network waiting", `latest_handler="MessageHandler of tag 1"`,
		"peer connected", "network=" + peer.Network(),
	} {
		if got := text.String(); !strings.Contains(got, want) {
			t.Errorf("%q is not in the log:\n%s", want, got)
		}
	}
}

// A handler that blocks is reported, with its tag, before it returns.
func TestLogWhileHandlerBlocks(t *testing.T) {
	var text lockedBuffer
	server := listen(t, gobtl.Config{
		Log:    slog.New(slog.NewTextHandler(&text, nil)),
		Runner: runner.Config{LongPass: 10 * time.Millisecond},
	}, "127.0.0.1:0")
	const want = `a handler keeps the network waiting: it must not block" ` +
		`handler="MessageHandler of tag 7"`
	told := make(chan bool, 1)
	must(t, server.HandleMessage(7, func(*gobtl.Peer, []byte) {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			if strings.Contains(text.String(), want) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		told <- strings.Contains(text.String(), want)
	}))
	patient := gobtl.Config{Transport: btl.Config{PeerTimeout: time.Minute}}
	must(t, dial(t, open(t, patient), server.Address()).Send(t.Context(), 7, nil))
	if !<-told {
		t.Errorf("the log is\n%s", text.String())
	}
}

// A peer that is silent may be stuck in a handler. Only the side that has dialled is told to dial
// again.
func TestSilentPeerHints(t *testing.T) {
	quick := gobtl.Config{Transport: btl.Config{PeerTimeout: 50 * time.Millisecond, KeepAlive: -1}}
	stuck, goOn := make(chan struct{}, 2), make(chan struct{})
	defer close(goOn)
	silent := gobtl.Config{Setup: func(n *gobtl.Node) error {
		return n.HandleMessage(1, func(*gobtl.Peer, []byte) { stuck <- struct{}{}; <-goOn })
	}}
	server := listen(t, silent, "127.0.0.1:0")
	err := dial(t, open(t, quick), server.Address()).Send(t.Context(), 1, nil)
	checkError(t, err, btl.ErrPeerDead, "stuck in a handler", "if a NAT gave it another address")

	peers := make(chan *gobtl.Peer, 1)
	quick.OnPeer = func(p *gobtl.Peer, ev btl.Event, _ error) {
		if ev == btl.EventConnected {
			peers <- p
		}
	}
	client := open(t, silent)
	dial(t, client, listen(t, quick, "127.0.0.1:0").Address())
	err = (<-peers).Send(t.Context(), 1, nil)
	checkError(t, err, btl.ErrPeerDead, "stuck in a handler")
	if strings.Contains(err.Error(), "NAT") {
		t.Errorf("to a peer that has dialled: %v", err)
	}
}

// lockedBuffer is text that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// The coming and going of peers is told at both sides, and ends what waits.
func TestPeersComeAndGo(t *testing.T) {
	type told struct {
		peer  *gobtl.Peer
		event btl.Event
	}
	events := make(chan told, 16)
	server := listen(t, gobtl.Config{OnPeer: func(p *gobtl.Peer, ev btl.Event, _ error) {
		events <- told{p, ev}
	}}, "127.0.0.1:0")
	waits := make(chan struct{})
	must(t, server.Handle("wait", func(ctx context.Context, _ *gobtl.Request) ([]byte, error) {
		close(waits)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	client := open(t, gobtl.Config{})
	peer := dial(t, client, server.Address())
	if peer.Err() != nil {
		t.Error(peer.Err())
	}
	came := <-events
	if came.event != btl.EventConnected {
		t.Errorf("%v", came.event)
	}
	ended := make(chan error, 1)
	go func() { _, err := peer.Call(context.Background(), "wait", nil); ended <- err }()
	<-waits
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	must(t, came.peer.Close(ctx))
	if err := <-ended; err == nil {
		t.Error("the call of a peer that has left has an answer")
	}
	<-peer.Done()
	err := peer.Err()
	if !errors.Is(err, btl.ErrPeerClosed) || !strings.Contains(err.Error(), server.Address()) {
		t.Error(err)
	}
	left := <-events
	if left.peer != came.peer || left.event == btl.EventConnected || left.peer.Err() == nil {
		t.Errorf("%v of another peer", left.event)
	}
	again := dial(t, client, server.Address())
	if _, err := again.Call(t.Context(), "none", nil); !errors.Is(err, call.ErrMethod) {
		t.Errorf("dialled again: %v", err)
	}
}

// A Listener serves net/http, and its end is not that of the Node.
func TestHTTP(t *testing.T) {
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	listener := server.Listener()
	web := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err == nil {
				_, _ = w.Write(body)
			}
		}),
		ReadHeaderTimeout: time.Minute,
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(listener) })
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			p, err := client.Dial(ctx, address)
			if err != nil {
				return nil, err
			}
			return p.OpenStream(ctx)
		},
	}
	body := strings.Repeat("web ", 50_000)
	resp, err := (&http.Client{Transport: transport}).Post(
		"http://"+server.Address(), "text/plain", strings.NewReader(body))
	must(t, err)
	back, err := io.ReadAll(resp.Body)
	if err != nil || string(back) != body {
		t.Errorf("%d of %d bytes, %v", len(back), len(body), err)
	}
	_ = resp.Body.Close()
	transport.CloseIdleConnections()
	must(t, web.Close())
	serving.Wait() // Serve returns because the Listener is closed; the Node goes on.
}
