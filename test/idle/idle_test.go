//go:build unix

package idle

import (
	"context"
	"flag"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the network of all tests
	"gobtl/mpi"
)

var idleFor = flag.Duration("idle", 300*time.Millisecond, "time of waiting for each test")

// limit bounds a test in addition to the time of waiting.
const limit = time.Minute

// cpuTime returns the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Error(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure waits, and prints the CPU time that the process used meanwhile. A program that polls
// would use all the time of a CPU.
func measure(t *testing.T, what string, wait func() error) error {
	t.Helper()
	const share = 5
	before, begin := cpuTime(t), time.Now()
	if err := wait(); err != nil {
		return err
	}
	used, took := cpuTime(t)-before, time.Since(begin)
	t.Logf("%s: %v of CPU time in %v", what, used, took.Round(time.Millisecond))
	if used > took/share {
		t.Errorf("%s: more than a %dth of the time", what, share)
	}
	return nil
}

// TestConns measures 100 connections between two nodes over which nothing is sent.
func TestConns(t *testing.T) {
	const count = 100
	ctx, stop := context.WithTimeout(t.Context(), *idleFor+limit)
	defer stop()
	server, serving, name := openNode(t)
	client, run, _ := openNode(t)
	l, err := server.Listen("idle")
	if err != nil {
		t.Fatal(err)
	}
	var accepted sync.WaitGroup
	accepted.Go(func() {
		for range count {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			go func() { _, _ = io.Copy(c, c) }() // until the Node is closed
		}
	})
	peer, err := run.Connect(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		c, err := client.Dial(ctx, peer, "idle")
		if err != nil {
			t.Fatal(err)
		}
		if err := echo(c); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.ReadFull(c, make([]byte, 1)) }() // until the Node is closed
	}
	accepted.Wait()
	before := run.Waits().Sleeps + serving.Waits().Sleeps
	err = measure(t, fmt.Sprintf("%d idle connections, both ends", count), func() error {
		time.Sleep(*idleFor)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for run.Waits().Sleeps+serving.Waits().Sleeps == before { // on a busy machine later
		if ctx.Err() != nil {
			t.Fatal("no end sleeps")
		}
		time.Sleep(time.Millisecond)
	}
	for _, end := range []func(context.Context) error{
		client.Close, run.Close, server.Close, serving.Close,
	} {
		if err := end(ctx); err != nil {
			t.Error(err)
		}
	}
}

func openNode(t *testing.T) (*conn.Node, *runner.Runner, []byte) {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	var cfg btl.Config
	buffers, err := cfg.DomainConfig(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	domain, err := fabric.Open(infos[0], buffers)
	if err != nil {
		t.Fatal(err)
	}
	m, err := btl.Open(domain, cfg)
	if err != nil {
		t.Fatal(err)
	}
	node, err := conn.New(m, conn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return node, node.Start(runner.Config{}, nil), m.Name()
}

// echo sends a byte, and reads the answer.
func echo(c io.ReadWriter) error {
	b := []byte{1}
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// job is a job of two ranks, each of which is a goroutine of this process.
type job struct {
	mu     sync.Mutex
	met    int
	all    chan struct{}
	values [][]byte
}

// seat is the place of a rank in the job.
type seat struct {
	*job
	rank int
}

func (s seat) Rank() int                    { return s.rank }
func (seat) Size() int                      { return 2 }
func (seat) NodeOf(int) int                 { return 0 }
func (seat) Nodes() int                     { return 1 }
func (seat) Finalize(context.Context) error { return nil }
func (s seat) Fence(ctx context.Context) error {
	_, err := s.Exchange(ctx, "", nil)
	return err
}

// Exchange waits until both ranks have called Exchange, and returns the values of both.
func (s seat) Exchange(ctx context.Context, _ string, value []byte) ([][]byte, error) {
	s.mu.Lock()
	if s.met == 0 {
		s.all, s.values = make(chan struct{}), make([][]byte, s.Size())
	}
	all, values := s.all, s.values
	values[s.rank] = value
	if s.met++; s.met == s.Size() {
		s.met = 0
		close(all)
	}
	s.mu.Unlock()
	select {
	case <-all:
		return values, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestRank measures a rank in Recv, to which the other rank sends nothing for the time.
func TestRank(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), *idleFor+limit)
	defer stop()
	var ranks sync.WaitGroup
	both := new(job)
	for rank := range 2 {
		ranks.Go(func() {
			if err := wait(ctx, t, seat{both, rank}); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	ranks.Wait()
}

// wait is the program of a rank.
func wait(ctx context.Context, t *testing.T, s seat) error {
	t.Helper()
	var cfg mpi.Config
	cfg.Fabric.Provider, cfg.Fabric.Node = "udp", "127.0.0.1"
	w, err := mpi.Open(ctx, s, cfg)
	if err != nil {
		return err
	}
	one := make([]byte, 1)
	if err := mpi.Barrier(ctx, &w.Comm); err != nil {
		return err
	}
	if w.Rank() == 0 {
		err := measure(t, "a rank in Recv, and its sleeping peer", func() error {
			_, err := mpi.Recv(ctx, &w.Comm, one, 1, 0)
			return err
		})
		if err != nil {
			return err
		}
	} else {
		time.Sleep(*idleFor)
		if err := mpi.Send(ctx, &w.Comm, one, 0, 0); err != nil {
			return err
		}
	}
	return w.Finalize(ctx)
}
