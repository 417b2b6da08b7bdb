//go:build linux

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/internal/plain"
	"gobtl/internal/testenv"
)

// session is a shell with job control at a terminal of its own.
type session struct {
	t      *testing.T
	keys   *os.File // what is typed, and what is shown
	lock   sync.Mutex
	screen bytes.Buffer
}

// atTerminal starts a shell at a pseudo-terminal, with an environment that the test has added to.
func atTerminal(t *testing.T, env ...string) *session {
	t.Helper()
	bash := testenv.Need(t, "bash", "bash")
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(keys.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	cmd := exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-i")
	cmd.Env = append(os.Environ(), append([]string{"PS1=$ ", "TERM=dumb", "HISTFILE="}, env...)...)
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = shown, shown, shown
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, keys: keys}
	go s.show()
	t.Cleanup(func() {
		_ = keys.Close() // The terminal hangs up.
		_ = cmd.Wait()
	})
	return s
}

func (s *session) show() {
	b := make([]byte, 4096)
	for {
		n, err := s.keys.Read(b)
		s.lock.Lock()
		s.screen.Write(b[:n])
		s.lock.Unlock()
		if err != nil {
			return
		}
	}
}

// enter types text.
func (s *session) enter(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, text); err != nil {
		s.t.Fatal(err)
	}
}

// sees waits until the terminal shows something, so many times.
func (s *session) sees(text string, times int) {
	s.t.Helper()
	for end := time.Now().Add(limit / 4); ; time.Sleep(10 * time.Millisecond) {
		s.lock.Lock()
		screen := s.screen.String()
		s.lock.Unlock()
		if strings.Count(screen, text) >= times {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("no %d times %q at the terminal:\n%s", times, text, screen)
		}
	}
}

// stateOf is what the system says of a process: "S", "T" where it is stopped and so on.
func stateOf(pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return string(after[:1])
}

// pidsIn are the numbers that ranks have written into files of a folder.
func pidsIn(t *testing.T, dir string, ranks int) (pids []string) {
	t.Helper()
	await(t, "the ranks' numbers", func() bool {
		pids = nil
		for rank := range ranks {
			text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(rank)))
			if pid, whole := strings.CutSuffix(string(text), "\n"); err == nil && whole {
				pids = append(pids, pid)
			}
		}
		return len(pids) == ranks
	})
	return pids
}

// Ctrl-Z stops the ranks, here and behind remote shells, and fg has them go on.
func TestTerminalStop(t *testing.T) {
	t.Parallel()
	shell := fakeShell(t)
	for _, hosts := range []string{"", "--rsh " + shell + " --hosts a,b"} {
		s, dir := atTerminal(t), t.TempDir()
		// The rank starts no child: one that is stopped between fork and exec leaves its parent in
		// state D.
		s.enter(fmt.Sprintf("%s -n 2 %s sh -c 'echo $$ > %s/$PMI_RANK; exec sleep 100'\n",
			btlrun, hosts, dir))
		pids := pidsIn(t, dir, 2)
		all := func(state string) func() bool {
			return func() bool {
				for _, pid := range pids {
					if got := stateOf(pid); got != state && (state == "T" || got == "T") {
						return false
					}
				}
				return true
			}
		}
		s.enter("\x1a")
		s.sees("Stopped", 1)
		await(t, "the ranks to be stopped", all("T"))
		s.enter("fg; echo status $?\n")
		await(t, "the ranks to go on", all("S"))
		s.enter("\x03")
		s.sees("status 130", 1)
	}
}

// In the background btlrun runs, and leaves the terminal to others; in the foreground its ranks
// have what is typed.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	s := atTerminal(t)
	s.enter(btlrun + " sh -c 'echo be''gun; read line; echo got $line; read line; echo got $line' &\n")
	s.sees("begun", 1)
	s.enter("echo mine $((40+2))\n")
	s.sees("mine 42", 1)
	s.enter("jobs\n")
	s.sees("Running", 1)
	s.enter("fg\n")
	s.enter("typed\n")
	s.sees("got typed", 1)
	s.enter("\x1a") // while it reads
	s.sees("Stopped", 1)
	s.enter("bg\n")
	s.enter("echo mine $((40+3))\n")
	s.sees("mine 43", 1)
	s.enter("jobs\n")
	s.sees("Running", 2)
	s.enter("fg; echo status $?\n")
	s.enter("more\n")
	s.sees("got more", 1)
	s.sees("status 0", 1)
}

// What btlrun was started to ignore stays ignored: by nohup, and in the background of a script.
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ start, signal string }{
		{"nohup %s", "HUP"}, {"%s", "INT"}, {"%s", "QUIT"},
	} {
		script := fmt.Sprintf(c.start, btlrun) +
			` sh -c 'echo $$ > pid; while [ ! -e end ]; do sleep .05; done; echo well' & job=$!
while [ ! -s pid ]; do sleep .05; done
kill -` + c.signal + ` $job; sleep .3; touch end; wait $job; echo status $?`
		cmd := command(t, "sh", "-c", script)
		cmd.Dir = t.TempDir()
		if r := run(t, cmd); !strings.HasSuffix(r.stdout, "well\nstatus 0\n") {
			t.Errorf("%s: %q\n%s", c.signal, r.stdout, r.stderr)
		}
	}
	// What is not ignored is forwarded: see TestBtlrunSignals.
}

// A full disk is an error, which ends the ranks, also if it shows when they have ended.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=65536"); err != nil {
		if errors.Is(err, unix.EPERM) {
			testenv.Missing(t, "needs the right to mount")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for i, program := range []string{
		"head -c 600000 /dev/zero", "head -c 70000 /dev/zero; exec sleep 1000",
		"head -c 600000 /dev/zero | tr '\\0' '\\n'",
	} {
		out, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(t, btlrun, "-n", "2", "sh", "-c", program)
		cmd.Stdout = out
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run() // The status says how.
		_ = out.Close()
		if status := cmd.ProcessState.ExitCode(); status != 1 ||
			strings.Count(stderr.String(), "no space left on device") != 1 ||
			!strings.HasPrefix(stderr.String(), "btlrun: standard output: ") {
			t.Errorf("%d: status %d, %q", i, status, stderr.String())
		}
	}
}

// Words, the environment, paths and reasons are bytes, whatever they are; and so is what a rank
// says of why it could not be started.
func TestBytesThatAreNoText(t *testing.T) {
	t.Parallel()
	const odd = "\xff\xfe\x80 \xc3("
	dir := filepath.Join(t.TempDir(), odd)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	shell := fakeShell(t)
	for _, hosts := range [][]string{nil, {"--rsh", shell, "--hosts", "a,b"}} {
		args := append([]string{"-n", "2", "--wdir", dir}, hosts...)
		const script = `printf '%s|%s|' "$1" "$ODD"; pwd`
		cmd := command(t, btlrun, append(args, "sh", "-c", script, "sh", odd)...)
		cmd.Env = append(cmd.Env, "ODD="+odd)
		want := odd + "|" + odd + "|" + dir + "\n"
		if r := run(t, cmd); r.status != 0 || r.stdout != want+want {
			t.Errorf("%v: status %d, %q, want twice %q\n%s", hosts, r.status, r.stdout, want, r.stderr)
		}
		r := run(t, command(t, btlrun, append(args, "./"+odd)...))
		// A terminal gets no bytes that are not text.
		if r.status != 127 || !strings.Contains(r.stderr, plain.Line(dir+"/"+odd)) {
			t.Errorf("%v: status %d, %q", hosts, r.status, r.stderr)
		}
	}
}

// What is missing is named: the interpreter of a script, a limit of the system; a directory and a
// PATH that are relative are those of the ranks.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bin/found": "#!/bin/sh\necho found\n", "lost": "#!/nonexistent/interpreter -x\n",
	} {
		path := filepath.Join(dir, "sub", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	job := func(script string) result {
		cmd := command(t, "sh", "-c", strings.ReplaceAll(script, "btlrun", btlrun))
		cmd.Dir = dir
		return run(t, cmd)
	}
	for script, want := range map[string]string{
		"btlrun --wdir sub ./bin/found":          "0 found\n",
		"PATH=$PATH:bin btlrun --wdir sub found": "0 found\n",
		"btlrun --wdir sub ./lost":               "127 its interpreter: #!/nonexistent/interpreter -x",
		"ulimit -n 40; btlrun -n 60 sleep 9": "126 the limit of open files of one process " +
			"(ulimit -n)",
	} {
		r := job(script)
		status, text, _ := strings.Cut(want, " ")
		if fmt.Sprint(r.status) != status || !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("%s: status %d, want %s\n%s%s", script, r.status, want, r.stdout, r.stderr)
		}
	}
}
