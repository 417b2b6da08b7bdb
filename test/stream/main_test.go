//go:build linux

package stream

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gobtl/internal/testenv"
)

// program is the program under test, built once.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	testenv.HearSignals()
	flag.Parse()
	// What runs side by side here mostly waits, on any number of cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "btlstream")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "btlstream")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "gobtl/cmd/btlstream")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // its provider is udp
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building btlstream: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// patience bounds what must happen on any machine.
const patience = time.Minute

// process is a running btlstream.
type process struct {
	t              testing.TB
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr output
	exited         chan struct{}
	began          time.Time
}

// output is what a process has written so far.
type output struct {
	lock sync.Mutex
	buf  bytes.Buffer
}

func (s *output) Write(b []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.buf.Write(b)
}

func (s *output) String() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.buf.String()
}

// start starts btlstream in a directory. It is killed when the test ends.
func start(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	return run(t, cmd)
}

func run(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, exited: make(chan struct{}), began: time.Now()}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	var err error
	if p.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // The status is in ProcessState.
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// wait returns the exit status, a signal's death as its negative number.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("%v still runs\n%s\n%s", p.cmd.Args[1:], p.stdout.String(), p.stderr.String())
	}
	state := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return -int(state.Signal())
	}
	return state.ExitStatus()
}

// ok waits for success.
func (p *process) ok() {
	p.t.Helper()
	if status := p.wait(); status != 0 {
		p.t.Fatalf("%v: status %d\n%s\n%s", p.cmd.Args[1:], status, p.stdout.String(), p.stderr.String())
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// found waits for a match in what a process writes and returns its first group.
func found(t testing.TB, o *output, pattern string) (match string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(t, pattern, func() bool {
		m := re.FindStringSubmatch(o.String())
		if m != nil {
			match = m[len(m)-1]
		}
		return m != nil
	})
	return match
}

// listening returns the address at which a process can be met.
func (p *process) listening() string {
	p.t.Helper()
	return found(p.t, &p.stderr, `listening on (\S+)\n`)
}

// report is what these tests read of the JSON form.
type report struct {
	Schema, Role, Mode, Error string
	Stream                    int
	Messages, Missing         uint64
	Duplicates, Late, Sent    uint64
	Overrun, Foreign          uint64
	MissingDatagrams          uint64 `json:"missing_datagrams"`
	SenderDropped             uint64 `json:"sender_dropped"`
	SocketDrops               uint64 `json:"socket_drops"`
	SendErrors                uint64 `json:"send_errors"`
	BurstBytes                uint64 `json:"burst_bytes"`
	Seconds                   float64
	MBPerS                    float64 `json:"megabytes_per_second"`
	Impair                    *struct{ Arrived, Lost, Duplicated, Reordered, Corrupted uint64 }
}

// reports reads the lines of standard output that are JSON.
func (p *process) reports() (list []report) {
	p.t.Helper()
	for line := range strings.Lines(p.stdout.String()) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var r report
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Schema != "gobtl-stream/1" {
			p.t.Fatalf("%v: %s", err, line)
		}
		list = append(list, r)
	}
	return list
}

func (p *process) report() report {
	p.t.Helper()
	list := p.reports()
	if len(list) != 1 {
		p.t.Fatalf("%d reports\n%s\n%s", len(list), p.stdout.String(), p.stderr.String())
	}
	return list[0]
}

// pair runs a receiver that listens and a sender that connects, both with JSON.
func pair(t testing.TB, both, receiver, sender []string) (rx, tx *process) {
	t.Helper()
	dir := t.TempDir()
	both = append([]string{"--format", "json"}, both...)
	args := append([]string{"--listen", "127.0.0.1:0"}, both...)
	rx = start(t, dir, append(args, receiver...)...)
	args = append([]string{"-s", "--connect", rx.listening()}, both...)
	return rx, start(t, dir, append(args, sender...)...)
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
