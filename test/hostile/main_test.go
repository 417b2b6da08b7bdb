//go:build linux

package hostile

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	rounds = flag.Int("hostile.rounds", 0,
		"pairs of runs of each kind, with and without the bad peer; 0: one run with it, nothing compared")
	length = flag.Float64("hostile.length", .1, "length of an honest run, as a part of the usual one")
)

// least is the part of its goodput that an honest program keeps beside a bad peer.
const least = .9

// patience bounds what must happen on any machine.
const patience = time.Minute

// programs is the folder of the programs, built once.
var programs string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	cmd := exec.Command("go", "build", "-o", dir, "gobtl/cmd/btlstream")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // its provider is udp
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// process is a running program.
type process struct {
	t              testing.TB
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{}
}

// output is what a process has written so far.
type output struct {
	lock sync.Mutex
	buf  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buf.String()
}

// start starts a program. It is killed when the test ends.
func start(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, cmd: exec.Command(filepath.Join(programs, program), args...), exited: make(chan struct{}),
	}
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the status is in ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// ok waits for success.
func (p *process) ok() {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("%v still runs\n%s", p.cmd.Args, p.stderr.String())
	}
	if !p.cmd.ProcessState.Success() {
		p.t.Fatalf("%v: %v\n%s", p.cmd.Args, p.cmd.ProcessState, p.stderr.String())
	}
}

// found waits for a match in what a process tells and returns its first group.
func (p *process) found(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := re.FindStringSubmatch(p.stderr.String()); m != nil {
			return m[1]
		}
	}
	p.t.Fatalf("never: %s\n%s", pattern, p.stderr.String())
	return ""
}

// result reads the JSON line that a program ends with.
func (p *process) result(v any) {
	p.t.Helper()
	for line := range strings.Lines(p.stdout.String()) {
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), v); err != nil {
				p.t.Fatal(err)
			}
			return
		}
	}
	p.t.Fatalf("no result\n%s", p.stdout.String())
}

// compare runs an honest program beside a bad peer, and with -hostile.rounds in turns with and
// without it. run returns the goodput, of whatever unit.
func compare(t *testing.T, run func(t *testing.T, beside bool) float64) {
	if *rounds == 0 {
		run(t, true)
		return
	}
	var ratios []float64
	for i := range *rounds {
		got := map[bool]float64{}
		for _, beside := range []bool{i%2 == 0, i%2 != 0} {
			got[beside] = run(t, beside)
		}
		ratios = append(ratios, got[true]/got[false])
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("goodput beside the bad peer: %.3f of that without (%.3f to %.3f, %d pairs)", median,
		ratios[0], ratios[len(ratios)-1], len(ratios))
	if median < least {
		t.Errorf("%.3f of the goodput is left, want %.1f", median, least)
	}
}
