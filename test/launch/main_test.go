//go:build linux

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp"
	"gobtl/launch"
	"gobtl/mpi"
)

// roleVariable makes this binary a rank of a job, which does what it says.
const roleVariable = "BTL_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		status := buildAndRun(m)
		reap()
		os.Exit(status)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	status, err := rank(ctx, role)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// rank is the life of a rank.
func rank(ctx context.Context, role string) (status int, err error) {
	if role == "unread" { // One of its ranks does not join.
		return 0, unread(ctx)
	}
	j, err := launch.Join(ctx, launch.Config{})
	if err != nil {
		return 1, err
	}
	switch role {
	case "greet":
		if err := greet(ctx, j); err != nil {
			return 1, err
		}
		return 0, world(ctx, j)
	case "abort": // rank 1 ends the job, for which the others wait for ever
		if j.Rank() == 1 {
			return 7, j.Abort(ctx, 7)
		}
		return 0, j.Fence(ctx)
	case "leave": // rank 1 ends with 0, but without a word
		if j.Rank() == 1 {
			return 0, nil
		}
		return 0, j.Fence(ctx)
	case "fail": // rank 1 ends with 5
		if j.Rank() == 1 {
			return 5, nil
		}
		return 0, j.Fence(ctx)
	case "die":
		if j.Rank() == 1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return 0, j.Fence(ctx)
	case "input": // how much each rank has of the standard input
		got, err := io.ReadAll(os.Stdin)
		fmt.Printf("input: rank %d has %d bytes\n", j.Rank(), len(got))
		return 0, errors.Join(err, j.Finalize(ctx))
	case "lose":
		signal.Ignore(syscall.SIGTERM) // with which the launcher asks the others to end
		return 0, lose(ctx, j)
	case "lose-asked": // Whoever is asked to end, does.
		return 0, lose(ctx, j)
	case "compute":
		return 0, compute(ctx, j)
	case "flood":
		return 0, flood(ctx, j)
	case "networks":
		return 0, networks(ctx, j)
	case "signals":
		return signals(ctx, j)
	default:
		return 1, fmt.Errorf("no role %q", role)
	}
}

// signals tells which signals come, until one asks to end; then it ends as after finished work.
func signals(ctx context.Context, j *launch.Job) (int, error) {
	come := make(chan os.Signal, 4)
	signal.Notify(come, syscall.SIGUSR1, syscall.SIGTERM)
	if err := j.Fence(ctx); err != nil {
		return 1, err
	}
	fmt.Printf("ready %d\n", j.Rank())
	for s := range come {
		fmt.Printf("rank %d has %v\n", j.Rank(), s)
		if s == syscall.SIGTERM {
			break
		}
	}
	return 0, j.Finalize(ctx)
}

// greet exchanges what is long, and the names of modules, sends a message to each rank, and prints
// a line when it has one of each.
func greet(ctx context.Context, j *launch.Job) error {
	long, err := j.Exchange(ctx, "long", text(j.Rank()))
	if err != nil {
		return err
	}
	for r, value := range long {
		if !bytes.Equal(value, text(r)) {
			return fmt.Errorf("of rank %d came %d bytes, not its own", r, len(value))
		}
	}
	var from atomic.Int64
	all := make(chan struct{})
	runner, name, err := open(func(data []byte) {
		if bytes.HasPrefix(data, []byte("hello")) && from.Add(1) == int64(j.Size()) {
			close(all)
		}
	})
	if err != nil {
		return err
	}
	names, err := j.Exchange(ctx, "btl", name)
	if err != nil {
		return err
	}
	for _, name := range names {
		peer, err := runner.Connect(ctx, name)
		if err != nil {
			return err
		}
		if err := runner.Send(ctx, peer, 1, fmt.Appendf(nil, "hello from %d", j.Rank())); err != nil {
			return err
		}
	}
	select {
	case <-all:
	case <-ctx.Done():
		return fmt.Errorf("messages of %d ranks of %d: %w", from.Load(), j.Size(), ctx.Err())
	}
	if _, err := j.Get(ctx, 0, "nothing"); !errors.Is(err, launch.ErrNoValue) {
		return fmt.Errorf("what nobody has put: %w", err)
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	if err := runner.Close(ctx); err != nil {
		return err
	}
	fmt.Printf("greeted: rank %d of %d, node %d of %d, local %d of %d, %s\n", j.Rank(), j.Size(),
		j.Node(), j.Nodes(), j.LocalRank(), j.LocalSize(), j.Launcher())
	return nil
}

// world is an MPI program in the same job: what all ranks have together, and an orderly end.
func world(ctx context.Context, j *launch.Job) error {
	var cfg mpi.Config
	cfg.Fabric.Node = "127.0.0.1" // The hosts of these tests are all this one.
	w, err := mpi.Open(ctx, j, cfg)
	if err != nil {
		return err
	}
	sum, n := []int{w.Rank()}, w.Size()
	if err := mpi.Allreduce(ctx, &w.Comm, sum, sum, mpi.Sum[int]()); err != nil {
		return err
	}
	if sum[0] != n*(n-1)/2 {
		return fmt.Errorf("the ranks of %d are %d together", n, sum[0])
	}
	return w.Finalize(ctx)
}

// text is a value of a rank that takes several lines of PMI-1; that of rank 0 is empty.
func text(rank int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(rank)))
	text := make([]byte, rank*1500)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return text
}

// open starts a module on the loopback interface, small ones, for all ranks are on one machine.
func open(handle func(data []byte)) (*runner.Runner, []byte, error) {
	cfg := btl.Config{MTUBytes: 1500, SendBuffers: 64, RecvDepth: 64, FragmentsMax: 64}
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, nil, err
	}
	sizes, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, nil, err
	}
	domain, err := fabric.Open(infos[0], sizes)
	if err != nil {
		return nil, nil, err
	}
	m, err := btl.Open(domain, cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := m.Handle(1, func(_ *btl.Endpoint, _ btl.Tag, data []byte) { handle(data) }); err != nil {
		return nil, nil, err
	}
	name := bytes.Clone(m.Name())
	return runner.New(m, runner.Config{}, nil), name, nil
}
