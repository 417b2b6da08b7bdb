package conn_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/fabric/mem"
	"gobtl/fabric/shm"
	_ "gobtl/fabric/udp"
	"gobtl/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tag btl.Tag = 9

// side is one process of a test.
type side struct {
	*conn.Node
	run  *runner.Runner
	name []byte
}

// opener opens domains that reach each other.
type opener func(fabric.DomainConfig) (fabric.Domain, fabric.Info, error)

// registered is the opener of a provider.
func registered(provider string) opener {
	return func(cfg fabric.DomainConfig) (fabric.Domain, fabric.Info, error) {
		infos, err := fabric.GetInfo(fabric.Hints{Provider: provider})
		if err != nil {
			return nil, fabric.Info{}, err
		}
		if cfg == (fabric.DomainConfig{}) {
			return nil, infos[0], nil
		}
		d, err := fabric.Open(infos[0], cfg)
		return d, infos[0], err
	}
}

// within is the opener of a network inside the process.
func within(n *mem.Network) opener {
	return func(cfg fabric.DomainConfig) (fabric.Domain, fabric.Info, error) {
		infos, err := n.Provider().GetInfo(fabric.Hints{})
		if err != nil || cfg == (fabric.DomainConfig{}) {
			return nil, infos[0], err
		}
		d, err := n.Open(cfg)
		return d, infos[0], err
	}
}

func open(t testing.TB, with opener, cfg conn.Config, bc btl.Config) *side {
	t.Helper()
	_, info, err := with(fabric.DomainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := bc.DomainConfig(info)
	if err != nil {
		t.Fatal(err)
	}
	domain, _, err := with(sizes)
	if err != nil {
		t.Fatal(err)
	}
	m, err := btl.Open(domain, bc)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Tag == 0 {
		cfg.Tag = tag
	}
	n, err := conn.New(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{Node: n, name: m.Name()}
	s.run = n.Start(runner.Config{}, nil)
	t.Cleanup(s.end)
	return s
}

// end closes a side, if that was not done.
func (s *side) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.Node.Close(ctx) // A Runner that has ended says so.
	_ = s.run.Close(ctx)  // What a test has broken does not end in order.
}

// pair is two sides, and a Listener of the second one.
type pair struct {
	client, server *side
	ep             *btl.Endpoint // of the server, at the client
	listener       *conn.Listener
}

func newPair(t testing.TB, with opener, cfg conn.Config, bc btl.Config) *pair {
	t.Helper()
	p := &pair{client: open(t, with, cfg, bc), server: open(t, with, cfg, bc)}
	var err error
	if p.listener, err = p.server.Listen("service"); err != nil {
		t.Fatal(err)
	}
	if p.ep, err = p.client.run.Connect(t.Context(), p.server.name); err != nil {
		t.Fatal(err)
	}
	return p
}

// dial makes a Conn, both ends of it.
func (p *pair) dial(t testing.TB) (c1, c2 *conn.Conn) {
	t.Helper()
	c1, err := p.client.Dial(t.Context(), p.ep, "service")
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c1, c.(*conn.Conn)
}

func overNetwork(t *testing.T, cfg conn.Config) *pair {
	t.Helper()
	return newPair(t, within(mem.New(mem.Config{})), cfg, btl.Config{})
}

// all are the networks on which everything must work.
func all(t *testing.T, fn func(t *testing.T, with opener)) {
	for _, provider := range []string{"udp", shm.ProviderName} {
		t.Run(provider, func(t *testing.T) {
			with := registered(provider)
			if _, _, err := with(fabric.DomainConfig{}); err != nil {
				testenv.Missing(t, "%s: %v", provider, err)
			}
			fn(t, with)
		})
	}
}

func TestNettest(t *testing.T) {
	all(t, func(t *testing.T, with opener) {
		p := newPair(t, with, conn.Config{}, btl.Config{})
		nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
			c1, c2 := p.dial(t)
			return c1, c2, func() { c1.Close(); c2.Close() }, nil
		})
	})
}

// Bytes arrive in order whatever the network does with fragments, and in pieces of any size.
func TestOrder(t *testing.T) {
	seed := testenv.Seed(t, rand.Uint64())
	lossy := func(cfg fabric.DomainConfig) (fabric.Domain, fabric.Info, error) {
		_, info, err := registered("udp")(fabric.DomainConfig{})
		if err != nil || cfg == (fabric.DomainConfig{}) {
			return nil, info, err
		}
		d, err := impair.Open(info, impair.Reserve(cfg), impair.Faults{
			Seed: seed, Loss: .02, Dup: .02, Reorder: .1,
		})
		return d, info, err
	}
	p := newPair(t, lossy, conn.Config{WindowBytes: 20_000}, btl.Config{})
	c1, c2 := p.dial(t)
	random := rand.New(rand.NewPCG(seed, 1))
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	go func() {
		defer c1.CloseWrite()
		for rest := want; len(rest) > 0; {
			n := min(1+random.IntN(1<<random.IntN(17)), len(rest))
			if _, err := c1.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	}()
	got, err := io.ReadAll(iotestHalf{c2})
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes of %d, equal: %v, %v", len(got), len(want), bytes.Equal(got, want), err)
	}
	// The other direction is open still.
	if _, err := c2.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := c2.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c1); err != nil || string(got) != "answer" {
		t.Fatalf("%q, %v", got, err)
	}
}

// iotestHalf reads half of what it is asked for, at least 1 byte.
type iotestHalf struct{ r io.Reader }

func (h iotestHalf) Read(b []byte) (int, error) { return h.r.Read(b[:(len(b)+1)/2]) }

// A reader that stops stops the writer, at a window; nothing is kept beyond that, and whoever waits
// goes on when it reads.
func TestStopped(t *testing.T) {
	const window = 64 << 10
	p := overNetwork(t, conn.Config{WindowBytes: window})
	c1, c2 := p.dial(t)
	must(t, c1.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	n, err := c1.Write(data)
	if n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes written, want %d; %v", n, window, err)
	}
	must(t, c1.SetWriteDeadline(time.Time{}))
	done := make(chan error, 1)
	go func() {
		_, err := c1.Write(data[n:])
		done <- errors.Join(err, c1.Close())
	}()
	got, err := io.ReadAll(c2)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	must(t, <-done)
}

// Close does not wait for a side that reads nothing, all that was written before arrives, and it
// ends Writes of the other side.
func TestCloseWhileStopped(t *testing.T) {
	p := overNetwork(t, conn.Config{WindowBytes: 4096})
	c1, c2 := p.dial(t)
	for _, c := range []*conn.Conn{c1, c2} {
		if n, err := c.Write(make([]byte, 4096)); n != 4096 || err != nil { // a window
			t.Fatal(n, err)
		}
	}
	writes, blocked := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c1.Write(make([]byte, 1<<20)); writes <- err }()
	go func() { _, err := c2.Write(make([]byte, 1<<20)); blocked <- err }()
	if n, err := c1.Read(make([]byte, 100)); n == 0 || err != nil { // less than is told
		t.Fatal(n, err)
	}
	must(t, c1.Close())
	if err := <-writes; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("the Write has ended with %v", err)
	}
	if err := <-blocked; !errors.Is(err, conn.ErrStopped) {
		t.Fatalf("the other side's Write has ended with %v", err)
	}
	got, err := io.ReadAll(c2)
	if err != nil || len(got) != 4096 {
		t.Fatalf("%d bytes arrived, want a window of 4096; %v", len(got), err)
	}
	if err := c1.Close(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("the second Close: %v", err)
	}
	must(t, c2.Close())
	gone(t, p.client, p.server)
}

// gone waits until sides have forgotten all Conns.
func gone(t *testing.T, sides ...*side) {
	t.Helper()
	for _, s := range sides {
		for began := time.Now(); s.Conns() > 0; {
			if time.Since(began) > 10*time.Second {
				t.Fatal("Conns are kept")
			}
			runtime.Gosched()
		}
	}
}

// Who is gone without a word ends what waits for it; what had come is read before.
func TestDeath(t *testing.T) {
	network := mem.New(mem.Config{})
	var dead atomic.Bool
	network.SetFilter(func(_, _, _ []byte) mem.Verdict {
		if dead.Load() {
			return mem.Drop
		}
		return mem.Deliver
	})
	p := newPair(t, within(network), conn.Config{WindowBytes: 4096},
		btl.Config{PeerTimeout: 200 * time.Millisecond, KeepAlive: 100 * time.Millisecond})
	c1, c2 := p.dial(t)
	if n, err := c2.Write([]byte("last words")); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := c1.Write(make([]byte, 4096)); n != 4096 || err != nil { // a window
		t.Fatal(n, err)
	}
	written := make(chan error, 1)
	go func() { _, err := c1.Write(make([]byte, 1<<20)); written <- err }()
	first := make([]byte, 4)
	if _, err := io.ReadFull(c1, first); err != nil || string(first) != "last" {
		t.Fatalf("%q, %v", first, err)
	}
	if err := p.client.run.Flush(t.Context(), p.ep); err != nil {
		t.Fatal(err)
	}
	dead.Store(true)
	if err := <-written; !errors.Is(err, btl.ErrPeerDead) {
		t.Fatalf("the Write has ended with %v", err)
	}
	rest, err := io.ReadAll(c1)
	if string(rest) != " words" || !errors.Is(err, btl.ErrPeerDead) {
		t.Fatalf("%q, %v", rest, err)
	}
	got, err := io.ReadAll(c2)
	if len(got) != 4096 || !errors.Is(err, btl.ErrPeerDead) {
		t.Fatalf("%d bytes arrived, %v", len(got), err)
	}
	if _, err := p.client.Dial(t.Context(), p.ep, "service"); err == nil {
		t.Fatal("a Conn with a dead peer")
	}
	gone(t, p.client, p.server)
}

// Dial is told why there is no Conn, and a Listener is one for its service.
func TestRefused(t *testing.T) {
	p := overNetwork(t, conn.Config{Backlog: 2, ConnsMax: 3})
	p.client.SetDialMost(0)
	dial := func(service string) (*conn.Conn, error) {
		return p.client.Dial(t.Context(), p.ep, service)
	}
	want := func(service string, want error) {
		t.Helper()
		if _, err := dial(service); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	want("nothing", conn.ErrService)
	want(strings.Repeat("x", 256), conn.ErrService)
	var conns []*conn.Conn
	for range 2 {
		c, err := dial("service")
		must(t, err)
		conns = append(conns, c)
	}
	want("service", conn.ErrBacklog)
	accepted, err := p.listener.Accept()
	must(t, err)
	c, err := dial("service")
	must(t, err)
	conns = append(conns, c)
	want("service", conn.ErrConns)
	if _, err := p.server.Listen("service"); !errors.Is(err, conn.ErrInUse) {
		t.Fatal(err)
	}
	must(t, p.listener.Close())
	if _, err := p.listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	for _, c := range conns[1:] { // that nobody has accepted
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if n, err := conns[0].Write([]byte("x")); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	must(t, accepted.Close())
	for _, c := range conns {
		must(t, c.Close())
	}
	gone(t, p.client, p.server)
	want("service", conn.ErrService)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
