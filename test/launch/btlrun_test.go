//go:build linux

package launch

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gobtl/internal/testenv"
)

// roleOf runs btlrun with ranks of a role.
func roleOf(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, btlrun, append(args, self(t))...)
	cmd.Env = append(cmd.Env, roleVariable+"="+role)
	return cmd
}

// fakeShell is a remote shell that runs everything here, with as much quoting as a real one needs,
// and a remark on standard error. Host "down" cannot be reached, "mute" has no btlrun, "chatty"
// greets who comes, "late" says something behind the agent's greeting, and "old" has another
// btlrun.
func fakeShell(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rsh")
	script := `#!/bin/sh
host=$1
shift
case $host in
down) echo "no route to host" >&2; exit 255 ;;
mute) exit 3 ;;
chatty) echo "Welcome to chatty" ;;
late) echo "btlrun agent 4"; echo "bash: warning: no such locale"; exec cat >/dev/null ;;
old) echo "btlrun agent 1"; exec cat >/dev/null ;;
esac
echo "connected" >&2
exec sh -c "$*"
`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBtlrun(t *testing.T) {
	t.Parallel()
	greetings(t, command(t, btlrun, "-n", "4", self(t)), 4, "PMI-1", oneNode)
	job := func(args ...string) *exec.Cmd {
		return command(t, btlrun, append([]string{"-n", "4", mpibench}, args...)...)
	}
	measures(t, "shm (all ranks are on this host", job)
	measures(t, "udp (the configuration of rank 0 names it)", func(args ...string) *exec.Cmd {
		return job(append(args, "--provider", "udp")...)
	})
	refuses(t, job)
	// What another launcher has told btlrun is not for its ranks.
	cmd := command(t, btlrun, "-n", "2", self(t))
	cmd.Env = append(cmd.Env, "PMI_PORT=127.0.0.1:1", "PMI_ID=9", "PMI_FD=77",
		"OMPI_COMM_WORLD_RANK=3")
	greetings(t, cmd, 2, "PMI-1", oneNode)
	cmd = command(t, btlrun, "env")
	cmd.Env = append(cmd.Env, "PMI_PORT=127.0.0.1:1", "OMPI_COMM_WORLD_RANK=3")
	if r := run(t, cmd); strings.Contains(r.stdout, "PMI_PORT") ||
		strings.Contains(r.stdout, "OMPI_COMM") || !strings.Contains(r.stdout, "PMI_RANK=0\n") {
		t.Errorf("the environment of a rank:\n%s", r.stdout)
	}
}

// Two ranks that poll one CPU say so, as do ranks that are asked how they have waited.
func TestWaitsTold(t *testing.T) {
	t.Parallel()
	measure := func(args ...string) string {
		r := run(t, command(t, btlrun, append([]string{
			"-n", "2", mpibench, "--cpus", "0", "-t", "latency", "-s", "8", "--duration", "5ms",
		}, args...)...))
		if r.status != 0 {
			t.Errorf("%q: status %d\n%s", args, r.status, r.stderr)
		}
		return r.stderr
	}
	const taken = ": --wait busy is for a CPU that nothing else uses\n"
	if got := measure("--wait", "busy"); !strings.Contains(got, "rank 0"+taken) ||
		!strings.Contains(got, "rank 1"+taken) || !strings.Contains(got, " yields, ") {
		t.Errorf("ranks that poll one CPU say:\n%s", got)
	}
	if got := measure("-v"); strings.Contains(got, taken) || strings.Count(got, " yields, ") != 2 {
		t.Errorf("ranks that are asked say:\n%s", got)
	}
	if got := measure(); got != "" {
		t.Errorf("ranks that are not asked say:\n%s", got)
	}
}

// The ranks of several hosts, to which a remote shell leads.
func TestBtlrunHosts(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for hosts, node := range map[string]func(int) int{
		"a,b":           func(rank int) int { return rank % 2 },
		"a:2,b:3":       func(rank int) int { return rank / 2 },
		"localhost,b:3": func(rank int) int { return min(rank, 1) },
	} {
		greetings(t, command(t, btlrun, "-n", "4", "--rsh", shell, "--hosts", hosts, self(t)), 4, "PMI-1",
			node)
	}
	// A path that a shell would take apart.
	odd := filepath.Join(t.TempDir(), "a 'b' $c")
	if err := os.Symlink(btlrun, odd); err != nil {
		t.Fatal(err)
	}
	r := run(t, command(t, btlrun, "-n", "2", "--rsh", shell, "--remote-btlrun", odd, "--hosts", "a,b",
		"sh", "-c", "echo $PMI_RANK"))
	if lines := strings.Fields(r.stdout); r.status != 0 || len(lines) != 2 ||
		!strings.Contains(r.stderr, "btlrun: a: connected\n") {
		t.Errorf("status %d, %q, %q", r.status, r.stdout, r.stderr)
	}
	for hosts, remark := range map[string]string{
		"down":   "down cannot be reached: no route to host (" + shell + ": exit status 255)",
		"mute":   "mute cannot be reached: " + shell + ": exit status 3",
		"chatty": `chatty is lost: no agent: it says "Welcome to chatty"`,
		"late":   `late is lost: no agent: it says "bash: warning: no such locale"`,
		"old": `old is lost: no agent: btlrun there speaks version "1", this one 4: all hosts must ` +
			"have the same",
	} {
		r := run(t, roleOf(t, "abort", "-n", "2", "--rsh", shell, "--hosts", "a,"+hosts))
		r.stderr = strings.ReplaceAll(r.stderr, "btlrun: a: connected\n", "")
		r.stderr = strings.ReplaceAll(r.stderr, "btlrun: "+hosts+": connected\n", "")
		if r.status != 1 || r.stderr != "btlrun: "+remark+"\n" {
			t.Errorf("%s: status %d\n%s", hosts, r.status, r.stderr)
		}
	}
	r = run(t, command(t, btlrun, "--rsh", "/nonexistent/rsh", "--hosts", "a", "true"))
	if r.status != 1 || !strings.Contains(r.stderr, "/nonexistent/rsh") {
		t.Errorf("no remote shell: status %d\n%s", r.status, r.stderr)
	}
}

// Flags that btlrun does not know are its user's mistake; those behind the program are the
// program's.
func TestBtlrunFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		want   string
		status int
	}{
		{[]string{"--bogus", "-n", "1", "echo"}, "btlrun: unknown flag --bogus", 2},
		{[]string{"-n", "0", "echo"}, "btlrun: -n 0: want 1 to ", 2},
		{[]string{"-n", "5000", "echo"}, "btlrun: -n 5000: at most 4096 ranks on each host", 2},
		{[]string{"--hosts", "a,a", "echo"}, `btlrun: invalid list of hosts: "a" is there twice`, 2},
		{[]string{"-n", "1", "echo", "--bogus", "-n", "2"}, "--bogus -n 2\n", 0},
		{[]string{"-n", "1", "--", "echo", "--bogus"}, "--bogus\n", 0},
		{[]string{"-n", "1", "--"}, "btlrun: no program behind --", 2},
	} {
		r := run(t, command(t, btlrun, c.args...))
		if r.status != c.status || !strings.HasPrefix(r.stdout+r.stderr, c.want) {
			t.Errorf("%q: status %d, %q, %q", c.args, r.status, r.stdout, r.stderr)
		}
	}
}

// How jobs end that end badly: the status of who is to blame, one line that says who it is, and the
// rest is gone, also what waits for ever, here and behind remote shells.
func TestBtlrunDeaths(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, c := range []struct {
		role, remark string
		status       int
	}{
		{"abort", "rank 1 aborts the job with 7", 7},
		{"fail", " ended with status 5", 5},
		{"die", " was ended by signal 9 (killed)", 128 + 9},
		{"leave", "ended without finalize", 1},
	} {
		for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b,c"}} {
			r := run(t, roleOf(t, c.role, append([]string{"-n", "3"}, hosts...)...))
			if r.status != c.status || strings.Count(r.stderr, c.remark) != 1 {
				t.Errorf("%s %v: status %d, want %d\n%s", c.role, hosts, r.status, c.status, r.stderr)
			}
		}
	}
	for program, status := range map[string]int{"/": 126, "./nonexistent": 127, "nonexistent": 127} {
		if r := run(t, command(t, btlrun, "-n", "2", program)); r.status != status {
			t.Errorf("%s: status %d, want %d\n%s", program, r.status, status, r.stderr)
		}
	}
	r := run(t, command(t, btlrun, "--wdir", "/nonexistent", "true"))
	if r.status != 126 || !strings.Contains(r.stderr, "/nonexistent is no directory") {
		t.Errorf("no directory to begin in: status %d\n%s", r.status, r.stderr)
	}
	// Who does not end when asked is killed, with what it has started.
	r = run(t, command(t, btlrun, "-n", "2", "--grace", "100ms", "sh", "-c",
		`[ $PMI_RANK = 0 ] && exit 9; trap "" TERM; echo waits; sleep 1000`))
	if r.status != 9 {
		t.Errorf("status %d\n%s", r.status, r.stderr)
	}
	// The others are asked to end first, so that they can leave things in order.
	cmd := command(t, btlrun, "-n", "2", "--grace", "1h", "sh", "-c",
		`[ $PMI_RANK = 0 ] && { while [ ! -e ready ]; do sleep .01; done; exit 9; }
trap "echo asked; exit 0" TERM; touch ready; while :; do sleep 1000 & wait $!; done`)
	cmd.Dir = t.TempDir()
	if r := run(t, cmd); r.status != 9 || r.stdout != "asked\n" {
		t.Errorf("status %d, %q\n%s", r.status, r.stdout, r.stderr)
	}
	// The statuses of mpiexec, but for signals, which it does not tell from statuses.
	hydra := testenv.Need(t, "mpiexec.hydra", "mpich")
	for _, script := range []string{"exit 0", "exit 3", "exit $((PMI_RANK * 4))"} {
		want := -1
		for range 5 { // hydra is sometimes killed by SIGPIPE itself, when its processes end at once
			if want = run(t, command(t, hydra, "-n", "2", "sh", "-c", script)).status; want >= 0 {
				break
			}
		}
		if r := run(t, command(t, btlrun, "-n", "2", "sh", "-c", script)); r.status != want {
			t.Errorf("%s: status %d, with hydra %d", script, r.status, want)
		}
	}
}

func TestBtlrunOutput(t *testing.T) {
	t.Parallel()
	const script = `i=0
while [ $i -lt 50 ]; do printf 'from %s' $PMI_RANK; echo ", line $i"; i=$((i+1)); done
printf 'the end'; [ $PMI_RANK = 2 ] && echo complaint >&2; exit 0`
	r := run(t, command(t, btlrun, "-n", "3", "--label", "sh", "-c", script))
	next := map[string]int{}
	for line := range strings.Lines(r.stdout) {
		rank, text, _ := strings.Cut(strings.TrimPrefix(line, "["), "] ")
		want := fmt.Sprintf("from %s, line %d\n", rank, next[rank])
		if next[rank] == 50 {
			want = "the end\n"
		}
		if text != want {
			t.Fatalf("%q instead of %q", line, want)
		}
		next[rank]++
	}
	if fmt.Sprint(next) != "map[0:51 1:51 2:51]" || r.stderr != "[2] complaint\n" || r.status != 0 {
		t.Errorf("lines %v, status %d, standard error %q", next, r.status, r.stderr)
	}
	// Without labels all is as it is, of one rank to the byte.
	if r := run(t, command(t, btlrun, "-n", "2", "printf", `a\nb`)); r.stdout != "a\na\nb\nb\n" &&
		r.stdout != "a\nb\na\nb\n" {
		t.Errorf("two ranks: %q", r.stdout)
	}
	if r := run(t, command(t, btlrun, "printf", `a\nb`)); r.stdout != "a\nb" {
		t.Errorf("one rank: %q", r.stdout)
	}
}

// Standard input is rank 0's, all of it; the others have none.
func TestBtlrunInput(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	input := bytes.Repeat([]byte("0123456789abcde\n"), 20_000)
	for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b"}} {
		args := append([]string{"-n", "2", "--no-label"}, hosts...)
		cmd := command(t, btlrun, append(args, "sh", "-c", "wc -c")...)
		cmd.Stdin = bytes.NewReader(input)
		r := run(t, cmd)
		got := strings.Fields(r.stdout)
		slices.Sort(got)
		if want := []string{"0", strconv.Itoa(len(input))}; r.status != 0 || !slices.Equal(got, want) {
			t.Errorf("%v: read %v, want %v; status %d\n%s", hosts, got, want, r.status, r.stderr)
		}
	}
	// A rank that does not read does not keep the job.
	cmd := command(t, btlrun, "-n", "2", "true")
	cmd.Stdin = bytes.NewReader(input)
	if r := run(t, cmd); r.status != 0 {
		t.Errorf("status %d\n%s", r.status, r.stderr)
	}
}

// started is a job whose ranks have said a first line each, and what they say from then on.
func started(t *testing.T, cmd *exec.Cmd, ranks int) (lines *bufio.Scanner, first []string) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines = bufio.NewScanner(stdout)
	for len(first) < ranks && lines.Scan() {
		first = append(first, lines.Text())
	}
	if len(first) < ranks {
		t.Fatalf("%d lines, then %v", len(first), lines.Err())
	}
	return lines, first
}

// Signals reach all ranks, which may do with them what they like.
func TestBtlrunSignals(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b"}} {
		cmd := roleOf(t, "signals", append([]string{"-n", "2", "--no-label"}, hosts...)...)
		cmd.SysProcAttr.Setpgid = true
		lines, _ := started(t, cmd, 2)
		var got []string
		for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if !lines.Scan() {
					t.Fatalf("no line for %v", s)
				}
				got = append(got, lines.Text())
			}
		}
		slices.Sort(got)
		want := []string{
			"rank 0 has terminated", "rank 0 has user defined signal 1",
			"rank 1 has terminated", "rank 1 has user defined signal 1",
		}
		if err := cmd.Wait(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v\n%s", hosts, err, strings.Join(got, "\n"))
		}
	}
	// Who asks twice means it. (A shell that is about to sleep hears of the signal when it has slept.)
	cmd := command(t, btlrun, "-n", "2", "--grace", "1h", "sh", "-c",
		`trap "echo interrupted" INT; trap "" TERM; echo ready; while :; do sleep .1; done`)
	lines, _ := started(t, cmd, 2)
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		for range 2 { // Of two signals that are under way at a time one is lost.
			lines.Scan()
		}
	}
	_ = cmd.Wait() // The status says how.
	if status := cmd.ProcessState.ExitCode(); status != 128+int(syscall.SIGINT) {
		t.Errorf("status %d after two of SIGINT", status)
	}
}

// When btlrun itself is killed nobody is left behind.
func TestBtlrunKilled(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b"}} {
		args := append([]string{"-n", "2"}, hosts...)
		cmd := command(t, btlrun, append(args, "sh", "-c", "echo $$; exec sleep 1000")...)
		_, pids := started(t, cmd, 2)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed, so never nil
		for _, pid := range pids {
			await(t, "end of rank "+pid, func() bool {
				stat, err := os.ReadFile("/proc/" + pid + "/stat")
				return err != nil || bytes.Contains(stat, []byte(") Z "))
			})
		}
	}
}

// mpichProgram is a program of MPICH, without its headers: Debian has them in a package of their
// own.
const mpichProgram = `
#include <stdio.h>
extern int MPI_Init(int *, char ***), MPI_Finalize(void);
extern int MPI_Comm_rank(int, int *), MPI_Comm_size(int, int *);
extern int MPI_Allreduce(const void *, void *, int, int, int, int);
int main(int argc, char **argv) {
  int rank, size, sum, world = 0x44000000, integer = 0x4c000405, add = 0x58000003;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  rank++;
  MPI_Allreduce(&rank, &sum, 1, integer, add, world);
  printf("sum of %d: %d\n", size, sum);
  return MPI_Finalize();
}
`

// A client of PMI-1 that is not ours: MPICH's own.
func TestBtlrunServesMPICH(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mpiexec.hydra", "mpich")
	gcc := testenv.Need(t, "gcc", "gcc")
	libraries, _ := filepath.Glob("/usr/lib/*/libmpich.so.12")
	if len(libraries) == 0 {
		testenv.Missing(t, "needs libmpich.so.12 (Debian: libmpich12)")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "sum.c"), filepath.Join(dir, "sum")
	if err := os.WriteFile(source, []byte(mpichProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, command(t, gcc, "-o", program, source, libraries[0])); r.status != 0 {
		t.Fatalf("%s", r.stderr)
	}
	r := run(t, command(t, btlrun, "-n", "3", program))
	if want := strings.Repeat("sum of 3: 6\n", 3); r.status != 0 || r.stdout != want {
		t.Errorf("status %d, %q, want %q\n%s", r.status, r.stdout, want, r.stderr)
	}
}
