package systems

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Host starts the processes that measure.
type Host struct {
	cpus  []int // the client's and the server's; empty is none
	each  time.Duration
	limit time.Duration // for one process
	dir   string        // for what is built
	parts int           // of a figure of this house, which is their median; 0 is 1
}

// InParts makes the results of this project medians over the given number of parts of the time. The
// other systems report medians over windows, too, and a mean would contain every pause of the
// machine.
func (h *Host) InParts(parts int) { h.parts = parts }

// NewHost returns a Host that starts processes on the CPUs of the client and the server, where an
// empty CPU means any. One measurement takes about the given time, and a process that takes longer
// than the limit is ended. The argument dir of NewHost is the directory for files.
func NewHost(cpus []int, each, limit time.Duration, dir string) *Host {
	return &Host{cpus: cpus, each: each, limit: limit, dir: dir}
}

// anyCPU lets the kernel choose the CPU of a process.
const anyCPU = -1

// clientCPU and serverCPU are the CPUs of the two sides of a measurement.
func (h *Host) clientCPU() int { return h.cpu(0) }
func (h *Host) serverCPU() int { return h.cpu(1) }

func (h *Host) cpu(i int) int {
	if len(h.cpus) == 0 {
		return anyCPU
	}
	return h.cpus[min(i, len(h.cpus)-1)]
}

// cpuText formats the CPUs for the flag --cpus of this program.
func (h *Host) cpuText() string {
	if len(h.cpus) == 0 {
		return "none"
	}
	var parts []string
	for _, cpu := range h.cpus {
		parts = append(parts, strconv.Itoa(cpu))
	}
	return strings.Join(parts, ",")
}

// command describes a process that is to be started.
type command struct {
	name string
	args []string
	env  []string // in addition to this process's
}

// The constants below are sizes of stored output of a process.
const (
	stdoutBytesMax = 4 << 20
	stderrBytesMax = 8 << 10
)

// process is a running command, which leads a session of its own so that all its child processes
// can be ended.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr tail
	exited         chan struct{}
	err            error // valid after exited is closed
}

// termGrace is how long a process may take to end after SIGTERM.
const termGrace = time.Second

// start starts a command on a CPU. The thread that starts the process lives as long as the process,
// because the kernel ends the process with that thread.
func start(cpu int, c command) (*process, error) {
	p := &process{
		cmd: exec.Command(c.name, c.args...), exited: make(chan struct{}),
		stdout: tail{limit: stdoutBytesMax}, stderr: tail{limit: stderrBytesMax},
	}
	p.cmd.Env = append(append(os.Environ(), "LC_ALL=C"), c.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = childAttr()
	p.cmd.WaitDelay = termGrace // A grandchild that kept the pipe open must not hold us up.
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the pinned thread ends with this goroutine
		err := pinThread(cpu)
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			endSession(p.cmd.Process.Pid)
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s does not start: %w", c.name, err)
	}
	return p, nil
}

// wait waits for the end of the process. If ctx is done first, wait ends the process and returns
// the error of ctx.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.failure()
	case <-ctx.Done():
		p.end()
		return context.Cause(ctx)
	}
}

// end ends the process and its descendants.
func (p *process) end() {
	select {
	case <-p.exited:
		return // Its number may be another's by now.
	default:
	}
	_ = signalGroup(p.cmd.Process, syscall.SIGTERM) // It may have ended by itself.
	select {
	case <-p.exited:
		return
	case <-time.After(termGrace):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// failure is the error of an ended process, with the end of its output.
func (p *process) failure() error {
	if p.err == nil {
		return nil
	}
	return p.describe(p.err)
}

// describe adds the end of the process's output to an error.
func (p *process) describe(err error) error {
	said := p.stderr.lastLines()
	if said == "" {
		said = p.stdout.lastLines()
	}
	if said == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, said)
}

// errLimit means that a process took too long.
var errLimit = errors.New("time limit exceeded")

// bound is the context of one process.
func (h *Host) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, h.limit, fmt.Errorf("%w (%v)", errLimit, h.limit))
}

// run runs a command to its end and returns its standard output, even if the command fails.
func (h *Host) run(ctx context.Context, cpu int, c command) ([]byte, error) {
	ctx, cancel := h.bound(ctx)
	defer cancel()
	p, err := start(cpu, c)
	if err != nil {
		return nil, err
	}
	err = p.wait(ctx)
	if errors.Is(err, errLimit) {
		err = p.describe(err)
	}
	return p.stdout.bytes(), err
}

// Run runs a program on any CPU with additional environment variables, and returns its standard
// output, even if the program fails.
func (h *Host) Run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	return h.run(ctx, anyCPU, command{name: name, args: args, env: env})
}

// runPair runs a server that listens on a TCP port and a client, each on its CPU, and returns the
// client's standard output.
func (h *Host) runPair(ctx context.Context, server, client command, port int) ([]byte, error) {
	ctx, cancel := h.bound(ctx)
	defer cancel()
	s, err := start(h.serverCPU(), server)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := s.waitListening(ctx, port); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	c, err := start(h.clientCPU(), client)
	if err != nil {
		return nil, err
	}
	if err := c.wait(ctx); err != nil {
		if said := s.stderr.lastLines(); said != "" {
			err = fmt.Errorf("%w; server: %s", err, said)
		}
		if errors.Is(err, errLimit) {
			err = c.describe(err)
		}
		return c.stdout.bytes(), err
	}
	return c.stdout.bytes(), nil
}

// listenPoll is the time between two checks whether a server listens.
const listenPoll = 2 * time.Millisecond

// waitListening waits until a process listens on a port. waitListening does not connect, because
// the server would mistake the connection for the client's.
func (p *process) waitListening(ctx context.Context, port int) error {
	ticker := time.NewTicker(listenPoll)
	defer ticker.Stop()
	for !listening(port) {
		select {
		case <-p.exited:
			return p.describe(errors.New("ended before it listened"))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}

// freePort returns a TCP port on which no process listens now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("no TCP address: %v", l.Addr())
	}
	return addr.Port, nil
}

// tail keeps the last bytes that were written to it.
type tail struct {
	lock  sync.Mutex
	buf   []byte
	limit int
}

func (t *tail) Write(b []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(b), nil
}

func (t *tail) bytes() []byte {
	t.lock.Lock()
	defer t.lock.Unlock()
	return bytes.Clone(t.buf)
}

// lastLines is the end of the written text, in one line.
func (t *tail) lastLines() string {
	const linesMax, charsMax = 4, 300
	var lines []string
	for line := range strings.Lines(string(t.bytes())) {
		if line = strings.Trim(strings.TrimSpace(line), "-="); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-linesMax):], " / ")
	return text[max(0, len(text)-charsMax):]
}
