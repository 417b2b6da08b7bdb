//go:build linux

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/launch"
	"gobtl/mpi"
)

// lose is a rank of a job that loses rank 1 in the middle of an Allreduce, and goes on without it.
func lose(ctx context.Context, j *launch.Job) error {
	var cfg mpi.Config
	cfg.Transport.PeerTimeout = 2 * time.Second
	cfg.Transport.KeepAlive = 200 * time.Millisecond
	w, err := mpi.Open(ctx, j, cfg)
	if err != nil {
		return err
	}
	sums := make([]float64, 1<<20)
	if err := mpi.Allreduce(ctx, &w.Comm, sums, sums, mpi.Sum[float64]()); err != nil {
		return err
	}
	var r mpi.Request
	if err := mpi.Iallreduce(&r, &w.Comm, sums, sums, mpi.Sum[float64]()); err != nil {
		return err
	}
	if w.Rank() == 1 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	_, err = r.Wait(ctx)
	var gone *mpi.RankError
	if !errors.As(err, &gone) || gone.Rank != 1 {
		return fmt.Errorf("not that rank 1 is gone: %w", err)
	}
	rest, err := w.Shrink(ctx)
	if err != nil {
		return err
	}
	one := []int64{1}
	if err := mpi.Allreduce(ctx, rest, one, one, mpi.Sum[int64]()); err != nil {
		return err
	}
	fmt.Printf("%d are left\n", one[0])
	return w.Finalize(ctx)
}

// A rank that is killed in the middle of an Allreduce: the others have the error, shrink, go on,
// and end in order, where the launcher leaves them the time or does not ask them to end at all.
func TestLoseRank(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, c := range [][]string{
		{"lose", "-n", "4", "--grace", "50s"},
		{"lose-asked", "-n", "4", "--keep-going"},
		{"lose-asked", "-n", "4", "--keep-going", "--rsh", shell, "--hosts", "a,b:3"},
	} {
		r := run(t, roleOf(t, c[0], c[1:]...))
		if n := strings.Count(r.stdout, "3 are left\n"); n != 3 || r.status != 128+9 ||
			strings.Contains(r.stderr, "rank: ") || strings.Count(r.stderr, "btlrun: rank 1") != 1 {
			t.Errorf("%v: status %d, %d ranks went on\n%s%s", c, r.status, n, r.stdout, r.stderr)
		}
	}
}

// With --keep-going the others end as they like, and the status is that of the first that has not
// ended with 0; but who waits for the dead in the launcher's barrier does not do so for ever.
func TestKeepGoing(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	cmd := command(t, btlrun, "-n", "3", "--keep-going", "sh", "-c", `case $PMI_RANK in
0) touch dead; exit 9 ;;
1) while [ ! -e dead ]; do sleep .01; done; sleep .2; touch later; exit 8 ;;
2) while [ ! -e later ]; do sleep .01; done; sleep .2; echo went on ;;
esac`)
	cmd.Dir = t.TempDir()
	if r := run(t, cmd); r.status != 9 || r.stdout != "went on\n" ||
		strings.Count(r.stderr, "btlrun: rank ") != 2 {
		t.Errorf("status %d, %q\n%s", r.status, r.stdout, r.stderr)
	}
	for role, status := range map[string]int{"abort": 7, "fail": 5, "die": 128 + 9, "leave": 1} {
		r := run(t, roleOf(t, role, "-n", "3", "--keep-going"))
		if r.status != status {
			t.Errorf("%s: status %d, want %d\n%s%s", role, r.status, status, r.stdout, r.stderr)
		}
	}
	// A host that is lost: the shell of b dies with its agent, and what is on a goes on.
	cmd = command(t, btlrun, "-n", "2", "--keep-going", "--rsh", shell, "--hosts", "a,b", "sh", "-c",
		`[ $PMI_RANK = 1 ] && { kill -9 $PPID; exit 0; }
sleep 1; echo went on`)
	if r := run(t, cmd); r.status != 1 || r.stdout != "went on\n" ||
		!strings.Contains(r.stderr, "btlrun: b is lost") {
		t.Errorf("status %d, %q\n%s", r.status, r.stdout, r.stderr)
	}
}
