//go:build linux

package troubleshooting

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gobtl"
	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// quick is a configuration whose errors come soon.
var quick = gobtl.Config{Transport: btl.Config{HandshakeTimeout: 300 * time.Millisecond}}

// cases provoke the messages of the page, by the first words of each.
var cases = map[string]provoked{
	// Programs do not start.
	`this program imports none; write import _ "gobtl/fabric/udp"`: func(t *testing.T) string {
		return run(t, "go", "run", "./testdata/noprovider")
	},
	"fabric: no such provider": func(t *testing.T) string {
		_, err := fabric.GetInfo(fabric.Hints{Provider: "token-ring"})
		return text(t, err)
	},
	"fabric: provider not available here": func(t *testing.T) string {
		return run(t, btlbench, "info", "--provider", "ofi/udp")
	},
	"no address for domain": func(t *testing.T) string {
		infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
		must(t, err)
		sizes, err := btl.Config{}.DomainConfig(infos[0])
		must(t, err)
		infos[0].Src = "192.0.2.1" // of nobody, by RFC 5737
		_, err = fabric.Open(infos[0], sizes)
		return text(t, err)
	},
	"btl: invalid configuration": func(t *testing.T) string {
		_, err := gobtl.Config{Transport: btl.Config{PeersMax: -1}}.Listen("127.0.0.1:0")
		return text(t, err)
	},
	"fabric: invalid configuration": func(t *testing.T) string {
		_, err := mem.New(mem.Config{}).Open(fabric.DomainConfig{Buffers: -1})
		return text(t, err)
	},
	"btl: invalid tunable": func(t *testing.T) string {
		_, err := new(btl.Config).LoadEnv([]string{"GOBTL_PEERS_MAX=many"})
		return text(t, err)
	},
	"it must be a directory of this user alone": foreignDirectory,

	// Peers do not connect.
	"btl: peer cannot be reached": func(t *testing.T) string {
		_, err := open(t, quick).Dial(within(t), silent(t))
		return text(t, err)
	},
	"nobody listens at the port: connection refused": func(t *testing.T) string {
		_, err := open(t, gobtl.Config{}).Dial(within(t), nobody(t))
		return text(t, err)
	},
	"a handler kept the network waiting": func(t *testing.T) string {
		return blocked(t, "kept")
	},
	"a handler keeps the network waiting": func(t *testing.T) string {
		return blocked(t, "keeps")
	},
	"answer, but the handshake was not finished within": unfinished,
	"btl: address of an earlier incarnation of the peer": func(t *testing.T) string {
		old := listen(t, gobtl.Config{})
		address := old.Address()
		var name []byte
		must(t, old.Links()[0].Runner().Do(within(t), func(m *btl.Module) error {
			name = m.Name()
			return nil
		}))
		closeNode(old)
		anew, err := gobtl.Listen(address)
		must(t, err)
		t.Cleanup(func() { closeNode(anew) })
		caller := listen(t, gobtl.Config{})
		_, err = caller.Links()[0].Runner().Connect(within(t), name)
		return text(t, err)
	},
	"btl: peer speaks another protocol version": func(t *testing.T) string {
		_, err := open(t, gobtl.Config{}).Dial(within(t), rejecting(t))
		return text(t, err)
	},
	"btl: malformed or foreign module name": func(t *testing.T) string {
		_, err := listen(t, gobtl.Config{}).Links()[0].Runner().Connect(within(t), []byte("server:4000"))
		return text(t, err)
	},
	"on this side: all of PeersMax": func(t *testing.T) string {
		client := open(t, gobtl.Config{Transport: btl.Config{PeersMax: 1}})
		_, err := client.Dial(within(t), listen(t, gobtl.Config{}).Address())
		must(t, err)
		_, err = client.Dial(within(t), listen(t, gobtl.Config{}).Address())
		return text(t, err)
	},
	"at the peer: its tables are full": func(t *testing.T) string {
		return second(t, btl.Config{PeersMax: 1, PeersPerHost: 1 << 10})
	},
	"at the peer: too many from this address": func(t *testing.T) string {
		return second(t, btl.Config{PeersPerHost: 1})
	},
	"of another host, or of a container with another": func(t *testing.T) string {
		infos, err := fabric.GetInfo(fabric.Hints{Provider: "shm"})
		if err != nil {
			testenv.Missing(t, "shared memory: %v", err)
		}
		var cfg btl.Config
		sizes, err := cfg.DomainConfig(infos[0])
		must(t, err)
		domain, err := fabric.Open(infos[0], sizes)
		must(t, err)
		m, err := btl.Open(domain, cfg)
		must(t, err)
		defer m.Close()
		name := m.Name()
		provider := int(name[1])
		name[16+provider+1] ^= 1 // the name of the host, behind the version of the address
		_, err = m.Connect(1, name)
		return text(t, err)
	},

	// Connections end.
	"btl: peer restarted": func(t *testing.T) string {
		old, address := process(t, hello, "serve", "127.0.0.1:0")
		peer, err := open(t, gobtl.Config{}).Dial(within(t), address)
		must(t, err)
		kill(t, old)
		process(t, hello, "serve", address)
		_, err = peer.Call(within(t), "greet", nil)
		return text(t, err)
	},
	"btl: peer does not answer": func(t *testing.T) string {
		old, address := process(t, hello, "serve", "127.0.0.1:0")
		cfg := gobtl.Config{Transport: btl.Config{PeerTimeout: time.Second}}
		peer, err := open(t, cfg).Dial(within(t), address)
		must(t, err)
		kill(t, old)
		_, err = peer.Call(within(t), "greet", nil)
		return text(t, err)
	},
	"btl: closed by the peer": func(t *testing.T) string {
		server, peer := pair(t, gobtl.Config{}, gobtl.Config{})
		must(t, server.Close(within(t)))
		<-peer.Done()
		return text(t, peer.Err())
	},

	// A call or message fails.
	"btl: peer has no handler for this tag": func(t *testing.T) string {
		_, peer := pair(t, gobtl.Config{}, gobtl.Config{})
		return text(t, peer.Send(within(t), 7, nil))
	},
	"btl: fragment too large": func(t *testing.T) string {
		_, peer := pair(t, gobtl.Config{Transport: btl.Config{FragmentBytesMax: 1 << 20}}, gobtl.Config{})
		return text(t, peer.Send(within(t), 7, make([]byte, 2<<20)))
	},
	"btl: the peer does not want this fragment": func(t *testing.T) string {
		server, peer := pair(t, gobtl.Config{}, gobtl.Config{})
		must(t, server.Links()[0].Runner().Do(within(t), func(m *btl.Module) error {
			return m.HandleUpTo(7, 1000, func(*btl.Endpoint, btl.Tag, []byte) {})
		}))
		return text(t, peer.Send(within(t), 7, make([]byte, 1<<20)))
	},
	"btl: remote memory access refused": func(t *testing.T) string {
		_, peer := pair(t, gobtl.Config{}, gobtl.Config{})
		return text(t, peer.Put(within(t), 1, 0, []byte("x")))
	},
	"runner: a callback must not wait": func(t *testing.T) string {
		server, peer := pair(t, gobtl.Config{}, gobtl.Config{})
		errs := make(chan error, 1)
		must(t, server.HandleMessage(7, func(from *gobtl.Peer, _ []byte) {
			errs <- from.Send(context.Background(), 7, nil)
		}))
		must(t, peer.Send(within(t), 7, nil))
		return text(t, <-errs)
	},
	"runner: memory may still be in use": func(t *testing.T) string {
		process, address := process(t, hello, "serve", "127.0.0.1:0")
		peer, err := open(t, gobtl.Config{}).Dial(within(t), address)
		must(t, err)
		kill(t, process)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return text(t, peer.Send(ctx, 7, make([]byte, 8<<20)))
	},
	"call: no such method": func(t *testing.T) string {
		_, peer := pair(t, gobtl.Config{}, gobtl.Config{})
		_, err := peer.Call(within(t), "nothing", nil)
		return text(t, err)
	},
	"call: server is busy": func(t *testing.T) string {
		server, peer := pair(t, gobtl.Config{Calls: call.Config{Concurrent: 1}}, gobtl.Config{})
		begun := make(chan bool, 1)
		must(t, server.Handle("wait", func(ctx context.Context, _ *gobtl.Request) ([]byte, error) {
			begun <- true
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		go func() { _, _ = peer.Call(ctx, "wait", nil) }() // It ends with ctx.
		<-begun
		_, err := peer.Call(ctx, "wait", nil)
		return text(t, err)
	},
	"conn: no such service": func(t *testing.T) string {
		server, peer := pair(t, gobtl.Config{}, gobtl.Config{})
		_ = server
		_, err := peer.Link().Streams().Dial(within(t), peer.Endpoint(), "nothing")
		return text(t, err)
	},
	"conn: backlog is full": func(t *testing.T) string {
		_, peer := pair(t, gobtl.Config{Streams: conn.Config{Backlog: 2}}, gobtl.Config{})
		for {
			c, err := peer.OpenStream(t.Context())
			if err != nil {
				return text(t, err)
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	},
	"busy: this server serves 1 at a time (serve --clients); try again later": busyServer,
}

// second dials a server with two nodes, and returns the error of the second.
func second(t *testing.T, server btl.Config) string {
	t.Helper()
	address := listen(t, gobtl.Config{Transport: server}).Address()
	_, err := open(t, gobtl.Config{}).Dial(within(t), address)
	must(t, err)
	_, err = open(t, gobtl.Config{}).Dial(within(t), address)
	return text(t, err)
}

// unfinished loses every HelloAck, so that each channel has answered, by a Retry, and the handshake
// is not finished.
func unfinished(t *testing.T) string {
	network := mem.New(mem.Config{})
	const helloAck = 5
	network.SetFilter(func(_, _, packet []byte) mem.Verdict {
		if packet[1]&15 == helloAck {
			return mem.Drop
		}
		return mem.Deliver
	})
	a := memoryModule(t, network, btl.Config{})
	b := memoryModule(t, network, btl.Config{})
	now := btl.Time(1)
	ep, err := a.Connect(now, b.Name())
	must(t, err)
	for ep.Err() == nil {
		now = now.Add(100 * time.Microsecond)
		for _, m := range []*btl.Module{a, b} {
			_, err := m.Progress(now)
			must(t, err)
		}
	}
	return text(t, ep.Err())
}

// foreignDirectory opens shared memory where others may write to the directory for it: in a mount
// namespace of its own, so that no other program of this host notices.
func foreignDirectory(t *testing.T) string {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root, for a mount namespace")
	}
	unshare := testenv.Need(t, "unshare", "util-linux")
	return run(t, unshare, "--mount", "sh", "-c",
		"mount -t tmpfs none /dev/shm && mkdir -m 777 /dev/shm/gobtl-0 && "+
			"exec "+btlbench+" pair --provider shm --test lat --duration 10ms")
}

// busyServer has a server of measurements serve one client while another one comes.
func busyServer(t *testing.T) string {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := probe.Addr().String()
	must(t, probe.Close())
	server := exec.CommandContext(t.Context(), btlbench, "serve", "--listen", address,
		"--clients", "1")
	server.WaitDelay = time.Second
	must(t, server.Start())
	t.Cleanup(func() { _ = server.Wait() }) // killed
	stay := func() <-chan struct{} {        // a client that stays for a minute
		c := exec.CommandContext(t.Context(), btlbench, "run", address, "--test", "lat",
			"--duration", "1m")
		c.WaitDelay = time.Second
		must(t, c.Start())
		ended := make(chan struct{})
		go func() {
			_ = c.Wait() // killed, or refused
			close(ended)
		}()
		return ended
	}
	first := stay()
	t.Cleanup(func() { <-first })
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-first: // The server was not there yet, or served another client.
			first = stay()
		case <-time.After(50 * time.Millisecond):
		}
		out := run(t, btlbench, "run", address, "--test", "lat", "--duration", "10ms")
		if strings.Contains(out, "busy: ") {
			return out
		}
	}
	t.Fatal(errors.New("the server serves two clients at once"))
	return ""
}

// blocked returns the line with a word that the log has of a handler that blocks.
func blocked(t *testing.T, word string) string {
	lines := make(chan string, 8)
	n, p := pair(t, gobtl.Config{
		Log: slog.New(slog.NewTextHandler(writer(lines), &slog.HandlerOptions{Level: slog.LevelWarn})),
		// A delay of more than ten times LongPass is reported even while others use the CPU.
		Runner: runner.Config{LongPass: 20 * time.Millisecond},
	}, gobtl.Config{})
	must(t, n.HandleMessage(1, func(*gobtl.Peer, []byte) { time.Sleep(500 * time.Millisecond) }))
	must(t, p.Send(within(t), 1, nil))
	for ctx := within(t); ; {
		select {
		case line := <-lines:
			if strings.Contains(line, word) {
				return line
			}
		case <-ctx.Done():
			t.Fatalf("no line with %q", word)
		}
	}
}
