//go:build linux

package launch

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/internal/testenv"
)

// freePort returns a TCP port that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// daemon starts a program that stays until the test ends.
func daemon(t *testing.T, log *bytes.Buffer, env []string, program string, args ...string) {
	t.Helper()
	cmd := command(t, program, args...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Cancel() // with what it has started
		_ = cmd.Wait()   // killed, so never nil
	})
}

// slurmConf is a cluster of one node that has four processors, whatever this machine has.
const slurmConf = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]s
SlurmdPort=%[3]s
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[4]s/munge.sock
CredType=cred/munge
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/spool
SlurmctldPidFile=%[4]s/ctld.pid
SlurmdPidFile=%[4]s/d.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=1
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n0 NodeHostname=%[1]s NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=p Nodes=n0 Default=YES State=UP
`

// slurm starts munge and Slurm, and returns what a command of Slurm needs in its environment.
func slurm(t *testing.T) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slurm") //nolint:usetesting // A socket's path must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killSteps()
		os.RemoveAll(dir)
	})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	key := make([]byte, 128)
	_, _ = rand.Read(key) // It never fails.
	conf := filepath.Join(dir, "slurm.conf")
	text := fmt.Appendf(nil, slurmConf, host, freePort(t), freePort(t), dir)
	for path, data := range map[string][]byte{
		filepath.Join(dir, "munge.key"):   key,
		conf:                              text,
		filepath.Join(dir, "cgroup.conf"): []byte("CgroupPlugin=cgroup/v1\n"),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"SLURM_CONF=" + conf}
	var munged, ctld, node bytes.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("munged:\n%s\nslurmctld:\n%s\nslurmd:\n%s", &munged, &ctld, &node)
		}
	})
	daemon(t, &munged, nil, testenv.Need(t, "munged", "munge"), "--foreground", "--force",
		"--key-file="+filepath.Join(dir, "munge.key"), "--socket="+filepath.Join(dir, "munge.sock"),
		"--pid-file="+filepath.Join(dir, "munge.pid"), "--log-file="+filepath.Join(dir, "munge.log"),
		"--seed-file="+filepath.Join(dir, "munge.seed"))
	await(t, "munged's socket", func() bool {
		_, err := os.Stat(filepath.Join(dir, "munge.sock"))
		return err == nil
	})
	daemon(t, &ctld, env, testenv.Need(t, "slurmctld", "slurmctld"), "-D", "-i")
	daemon(t, &node, env, testenv.Need(t, "slurmd", "slurmd"), "-D", "-N", "n0")
	sinfo := testenv.Need(t, "sinfo", "slurm-client")
	await(t, "an idle node", func() bool {
		cmd := exec.Command(sinfo, "-h", "-o", "%t")
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
	return env
}

// killSteps ends what slurmd has left: a slurmstepd that has not told it of the end of its job yet
// goes on trying. It has left slurmd's group, and without a parent it is this process's child.
func killSteps() {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		var pid, parent int
		var name, state string
		stat, _ := os.ReadFile(path) // It may have ended meanwhile.
		n, _ := fmt.Sscan(string(stat), &pid, &name, &state, &parent)
		if n == 4 && parent == os.Getpid() && strings.HasPrefix(name, "(slurmstepd") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // as above
		}
	}
}

// await waits until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("no %s within %v", what, limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestSlurm runs ranks under a real srun: with PMI-1, which its plugin for PMI-2 speaks, and
// without.
func TestSlurm(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testenv.Missing(t, "needs root, for slurmd")
	}
	srun := testenv.Need(t, "srun", "slurm-client")
	env := slurm(t)
	launch := func(args ...string) *exec.Cmd {
		cmd := command(t, srun, args...)
		cmd.Env = append(cmd.Env, env...)
		return cmd
	}
	start := func(args ...string) *exec.Cmd { return launch(append(args, self(t))...) }
	greetings(t, start("--mpi=pmi2", "-n", "4"), 4, "PMI-1", oneNode)
	measures(t, "", func(args ...string) *exec.Cmd {
		return launch(append([]string{"--mpi=pmi2", "-n", "4", mpibench}, args...)...)
	})
	abort := start("--mpi=pmi2", "-n", "3")
	abort.Env = append(abort.Env, roleVariable+"=abort")
	if r := run(t, abort); r.status == 0 {
		t.Errorf("status of a job that was aborted: 0\n%s%s", r.stdout, r.stderr)
	}
	inputs(t, start("--mpi=pmi2", "-n", "2"), 1000, 1000)
	for _, role := range []string{"die", "fail"} {
		killing := start("--mpi=pmi2", "--kill-on-bad-exit", "-n", "2")
		killing.Env = append(killing.Env, roleVariable+"="+role)
		if r := run(t, killing); r.status == 0 {
			t.Errorf("status of a job whose rank ends badly (%s): 0\n%s%s", role, r.stdout, r.stderr)
		}
	}
	// Without it, each process would take itself for a job of one rank.
	without := start("--mpi=none", "-n", "2")
	without.Env = append(without.Env, roleVariable+"=greet")
	if r := run(t, without); r.status == 0 || !strings.Contains(r.stderr, "srun --mpi=pmi2") {
		t.Errorf("a job without PMI: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	greetings(t, start("--mpi=none", "-n", "1"), 1, "none", oneNode)
}
