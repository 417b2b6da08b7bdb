//go:build linux

package launch

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gobtl/launch"
)

// flood is a rank of a job whose rank 0 writes more than anybody reads, which keeps it from nothing
// else; in the end rank 2 is killed.
func flood(ctx context.Context, j *launch.Job) error {
	if j.Rank() == 0 {
		var pieces atomic.Int64
		go func() {
			line := append(bytes.Repeat([]byte("flood "), 1000), '\n')
			for _, err := os.Stdout.Write(line); err == nil; _, err = os.Stdout.Write(line) {
				pieces.Add(1)
			}
		}()
		for seen := int64(-1); seen != pieces.Load(); { // until it waits for its reader
			seen = pieces.Load()
			time.Sleep(100 * time.Millisecond)
		}
	}
	for round := range 20 {
		if _, err := j.Exchange(ctx, fmt.Sprint(round), text(j.Rank())); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "rank %d has met all\n", j.Rank())
	if err := j.Fence(ctx); err != nil {
		return err
	}
	if j.Rank() == 2 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	<-ctx.Done()
	return ctx.Err()
}

// Nobody reads what btlrun writes, and rank 0 writes without end: the others meet, with it, and
// when one is killed the rest ends. Then all that was written in time comes, in whole lines.
func TestFlood(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b"}} {
		cmd := roleOf(t, "flood", append([]string{"-n", "3"}, hosts...)...)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		met, killed := 0, false
		lines := bufio.NewScanner(stderr)
		for (met < 3 || !killed) && lines.Scan() {
			if strings.HasSuffix(lines.Text(), "has met all") {
				met++
			}
			killed = killed || strings.HasPrefix(lines.Text(), "btlrun: rank 2")
		}
		if met != 3 || !killed {
			t.Errorf("%v: %d ranks have met, a rank killed: %v", hosts, met, killed)
		}
		all, err := io.ReadAll(stdout)
		if err != nil {
			t.Error(err)
		}
		want := strings.Repeat("flood ", 1000)
		for i, line := range strings.Split(strings.TrimSuffix(string(all), "\n"), "\n") {
			if !strings.HasPrefix(want, line) || line == "" {
				t.Errorf("%v: line %d is %.40q, of %d bytes", hosts, i, line, len(line))
			}
		}
		if len(all) < 64<<10 || len(all) > 1<<20 {
			t.Errorf("%v: %d bytes of output", hosts, len(all))
		}
		_ = cmd.Wait() // Its status is looked at.
		if status := cmd.ProcessState.ExitCode(); status != 128+9 {
			t.Errorf("%v: status %d", hosts, status)
		}
	}
}

// More output than any pipe holds comes whole, also what a rank has said last; of several at once
// each line is whole.
func TestOutputComesWhole(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b"}} {
		r := run(t, command(t, btlrun, append(append([]string{"-n", "3", "--no-label"}, hosts...),
			"sh", "-c", "seq 1 200000; echo last of $PMI_RANK; seq 1 2000 >&2")...))
		if r.status != 0 || strings.Count(r.stdout, "\n") != 3*200_001 ||
			strings.Count(r.stdout, "\nlast of ") != 3 || strings.Count(r.stderr, "\n2000\n") != 3 {
			t.Errorf("%v: status %d, %d lines", hosts, r.status, strings.Count(r.stdout, "\n"))
		}
		if sum := strings.Count(r.stdout, "\n77777\n"); sum != 3 {
			t.Errorf("%v: a line is there %d times, of 3", hosts, sum)
		}
	}
}

// What a rank has said last comes also if nobody reads it until long after its end.
func TestLastWords(t *testing.T) {
	t.Parallel()
	cmd := command(t, btlrun, "-n", "1", "sh", "-c", "seq 1 33000; echo last")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // more than btlrun waits for what has the output of one that has ended
	all, err := io.ReadAll(stdout)
	if err != nil || !bytes.HasSuffix(all, []byte("\n33000\nlast\n")) {
		t.Errorf("%d bytes, the end is %q, %v", len(all), all[max(0, len(all)-20):], err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Nobody reads btlrun's standard error, where it says why it ends a job: it ends it all the same.
func TestRemarkUnread(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, btlrun, "-n", "2", "--wdir", dir, "sh", "-c", `
if [ $PMI_RANK = 1 ]; then sleep .5; exit 3; fi
yes flood >&2 &
trap "touch asked; exit" TERM
wait`)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < limit/3; time.Sleep(10 * time.Millisecond) {
		if _, err = os.Stat(filepath.Join(dir, "asked")); err == nil {
			break
		}
	}
	if err != nil {
		t.Error("the other rank is not asked to end:", err)
	}
	all, err := io.ReadAll(stderr)
	if err != nil || !bytes.Contains(all, []byte("\nbtlrun: rank 1 on")) {
		t.Errorf("%d bytes, none of which tell why: %v", len(all), err)
	}
	_ = cmd.Wait() // Its status is looked at.
	if status := cmd.ProcessState.ExitCode(); status != 3 {
		t.Errorf("status %d", status)
	}
}
