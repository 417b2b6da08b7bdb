//go:build linux

package launch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"gobtl/launch"
	"gobtl/mpi"
)

var computeFor = flag.Duration("launch.compute", 0, "for how long the rank of TestCompute that "+
	"makes no call computes; what ranks wait for each other is the default then, at 0 it is short")

// computeVariable tells a rank of TestCompute for how long it computes.
const computeVariable = "BTL_TEST_COMPUTE"

// computeBytes is what the rank that computes is sent meanwhile: more than goes at once.
const computeBytes = 4 << 20

// compute is a rank of a job in which rank 1 computes, and calls nothing, for longer than a peer
// that does not answer is waited for. Rank 0 sends it messages meanwhile, which are over before the
// computation is; rank 2 waits for it; rank 3 for all of them.
func compute(ctx context.Context, j *launch.Job) error {
	how, err := time.ParseDuration(os.Getenv(computeVariable))
	if err != nil {
		return err
	}
	var cfg mpi.Config
	if how < time.Minute {
		cfg.Transport.PeerTimeout = how / 3
		cfg.Transport.KeepAlive = how / 20
	}
	w, err := mpi.Open(ctx, j, cfg)
	if err != nil {
		return err
	}
	c := &w.Comm
	// All are connected from here on: who is not has another time to answer.
	if err := mpi.Alltoall(ctx, c, make([]byte, w.Size()), make([]byte, w.Size())); err != nil {
		return err
	}
	one := []int64{1}
	switch w.Rank() {
	case 0:
		err = meanwhile(ctx, c)
	case 1:
		err = busy(ctx, c, how)
	case 2:
		_, err = mpi.Recv(ctx, c, one, 1, 3)
	}
	if err != nil {
		return err
	}
	if err := mpi.Allreduce(ctx, c, one, one, mpi.Sum[int64]()); err != nil {
		return err
	}
	if one[0] != int64(w.Size()) {
		return fmt.Errorf("the sum is %d", one[0])
	}
	if w.Rank() == 1 {
		fmt.Println("all are there")
	}
	return w.Finalize(ctx)
}

// busy is rank 1.
func busy(ctx context.Context, c *mpi.Comm, how time.Duration) error {
	var large mpi.Request
	data := make([]byte, computeBytes)
	if err := mpi.Irecv(&large, c, data, 0, 1); err != nil {
		return err
	}
	x, begin := 0.5, time.Now()
	for time.Since(begin) < how {
		for range 10_000 {
			x = math.Sin(x) + .5
		}
	}
	end := []int64{time.Now().UnixNano()}
	if _, err := large.Wait(ctx); err != nil {
		return err
	}
	for i, b := range data {
		if b != byte(i*7) {
			return fmt.Errorf("byte %d has come as %d", i, b)
		}
	}
	small := []int64{0}
	if _, err := mpi.Recv(ctx, c, small, 0, 2); err != nil || small[0] != 42 {
		return fmt.Errorf("what was sent meanwhile is %d: %w", small[0], err)
	}
	return errors.Join(mpi.Send(ctx, c, end, 0, 3), mpi.Send(ctx, c, []int64{1}, 2, 3))
}

// meanwhile is rank 0.
func meanwhile(ctx context.Context, c *mpi.Comm) error {
	data := make([]byte, computeBytes)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if err := mpi.Send(ctx, c, []int64{42}, 1, 2); err != nil {
		return err
	}
	if err := mpi.Send(ctx, c, data, 1, 1); err != nil {
		return err
	}
	sent, end := time.Now().UnixNano(), []int64{0}
	if _, err := mpi.Recv(ctx, c, end, 1, 3); err != nil {
		return err
	}
	if sent >= end[0] {
		return fmt.Errorf("a large message has waited %v for the end of the computation",
			time.Duration(sent-end[0]))
	}
	return nil
}

// A rank that computes without a call for longer than PeerTimeout, and KeepAlive: nothing dies, and
// what others send it arrives meanwhile.
func TestCompute(t *testing.T) {
	t.Parallel()
	how := *computeFor
	if how == 0 {
		how = 6 * time.Second
	}
	cmd := roleOf(t, "compute", "-n", "4")
	cmd.Env = append(cmd.Env, computeVariable+"="+how.String())
	begin := time.Now()
	r := run(t, cmd)
	if r.status != 0 || !strings.Contains(r.stdout, "all are there\n") {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	t.Logf("%v of computing, %v in all", how, time.Since(begin))
}
