//go:build linux

package launch

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gobtl/internal/testenv"
)

// The rows of docs/reference/launchers.md that a version of a launcher may change.

// anyFailure stands for every status but 0. Of the ranks that a foreign launcher ends it depends on
// time which one's status the job has.
const anyFailure = -1

// statuses runs jobs whose rank 1 ends as each role says while the others wait for it, and wants
// the launcher's status.
func statuses(t *testing.T, start func() *exec.Cmd, want map[string]int) {
	t.Helper()
	for role, status := range want {
		cmd := start()
		cmd.Env = append(cmd.Env, roleVariable+"="+role)
		r := run(t, cmd)
		if r.status != status && (status != anyFailure || r.status == 0) {
			t.Errorf("%v: role %s: status %d, want %d\n%s%s", cmd.Args, role, r.status, status, r.stdout,
				r.stderr)
		}
	}
}

// inputs runs ranks that count their standard input, and wants what each of them has of it.
func inputs(t *testing.T, cmd *exec.Cmd, want ...int) {
	t.Helper()
	cmd.Env = append(cmd.Env, roleVariable+"=input")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 1000))
	r := run(t, cmd)
	var got []string
	for line := range strings.Lines(r.stdout) {
		if _, text, ok := strings.Cut(line, "input: "); ok {
			got = append(got, strings.TrimSpace(text))
		}
	}
	slices.Sort(got)
	var all []string
	for rank, n := range want {
		all = append(all, fmt.Sprintf("rank %d has %d bytes", rank, n))
	}
	if !slices.Equal(got, all) || r.status != 0 {
		t.Errorf("%v: status %d, %q, want %q\n%s%s", cmd.Args, r.status, got, all, r.stdout, r.stderr)
	}
}

// TestEndings keeps the table of launchers true: what ends a job, and who has its input.
func TestEndings(t *testing.T) {
	t.Parallel()
	hydra := func() *exec.Cmd {
		return command(t, testenv.Need(t, "mpiexec.hydra", "mpich"), "-n", "2", self(t))
	}
	statuses(t, hydra, map[string]int{"die": anyFailure, "fail": anyFailure, "abort": anyFailure})
	openMPI := func() *exec.Cmd {
		cmd := command(t, testenv.Need(t, "mpirun.openmpi", "openmpi-bin"), "--oversubscribe", "-n", "2",
			self(t))
		cmd.Env = append(cmd.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
			"TMPDIR="+t.TempDir())
		return cmd
	}
	statuses(t, openMPI, map[string]int{"die": anyFailure, "fail": anyFailure})
	inputs(t, openMPI(), 1000, 0)
	own := func() *exec.Cmd { return command(t, btlrun, "-n", "2", self(t)) }
	statuses(t, own, map[string]int{"die": 137, "fail": 5, "leave": 1, "abort": 7})
	inputs(t, own(), 1000, 0)
}
