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

	"golang.org/x/sys/unix"
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
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir, "gobtl/cmd/btlstream")
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

// company is what an honest program runs beside.
type company int

const (
	alone company = iota
	besideBad
	// besideBusy is a process that only computes, for as much CPU time as the bad peer has used. On
	// a machine with few cores, a part of the goodput is lost beside any process.
	besideBusy
	companies
)

// compare runs an honest program beside a bad peer, and with -hostile.rounds in turns without it,
// with it, and beside a process that only computes. run returns the goodput, of whatever unit.
func compare(t *testing.T, bad kind, run func(t *testing.T, beside kind) float64) {
	if *rounds == 0 {
		run(t, bad)
		return
	}
	var ratios, floors, shares []float64
	for i := range *rounds {
		var got [companies]float64
		share := 0.0
		beside := [companies]kind{
			besideBad: func(t *testing.T, at place, stop <-chan struct{}) {
				share = cpuShare(func() { bad(t, at, stop) })
			},
			besideBusy: func(_ *testing.T, _ place, stop <-chan struct{}) { compute(share, stop) },
		}
		for n := range int(companies) {
			order := []company{besideBad, alone, besideBusy} // besideBusy needs the share
			if i%2 != 0 {
				order = []company{alone, besideBad, besideBusy}
			}
			got[order[n]] = run(t, beside[order[n]])
		}
		ratios = append(ratios, got[besideBad]/got[alone])
		floors = append(floors, got[besideBusy]/got[alone])
		shares = append(shares, share)
	}
	for _, s := range [][]float64{ratios, floors, shares} {
		slices.Sort(s)
	}
	mid := len(ratios) / 2
	t.Logf("goodput beside the bad peer: %.3f of that without (%.3f to %.3f, %d pairs)", ratios[mid],
		ratios[0], ratios[len(ratios)-1], len(ratios))
	t.Logf("beside a process that only computes: %.3f (%.3f to %.3f), both with %.2f of a core",
		floors[mid], floors[0], floors[len(floors)-1], shares[mid])
	if ratios[mid] < least {
		t.Errorf("%.3f of the goodput is left, want %.1f; the machine leaves %.3f", ratios[mid], least,
			floors[mid])
	}
}

// cpuShare runs a function, and returns the CPU time of this process by the time that has passed.
func cpuShare(fn func()) float64 {
	begin, before := time.Now(), cpuTime()
	fn()
	return float64(cpuTime()-before) / float64(time.Since(begin))
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compute uses a share of a core until stop is closed.
func compute(share float64, stop <-chan struct{}) {
	const slice = 5 * time.Millisecond
	begin, used := time.Now(), cpuTime()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if float64(cpuTime()-used) < share*float64(time.Since(begin)) {
			for end := time.Now().Add(slice / 10); time.Now().Before(end); {
			}
		} else {
			time.Sleep(slice)
		}
	}
}
