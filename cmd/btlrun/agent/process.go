//go:build unix

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gobtl/internal/bounded"
	"gobtl/launch/pmi"
)

// pmiFD is the descriptor of a rank's PMI socket, which follows the three standard descriptors.
const pmiFD = 3

// The constant lingering is the longest wait for further output after a rank has ended, because a
// child of the rank may keep the pipes open.
const lingering = time.Second

// The constants below limit the PMI lines that a rank has not read. A rank waits for one line
// before its next request.
const (
	pmiBytesMax = 64 << 10
	pmiTime     = 30 * time.Second // longest time for one write
	// requestsMax is the largest number of PMI requests of a rank that have no reply yet. btlrun has
	// room for requestsMax replies to a rank.
	requestsMax = 3
)

// errUnread means that a rank does not read the replies of the PMI server.
var errUnread = errors.New("it does not read the replies to its PMI requests")

// process is a rank that this agent has started.
type process struct {
	out   *Writer
	rank  int
	cmd   *exec.Cmd
	conn  net.Conn        // the agent's end of the PMI socket
	pmi   *bounded.Outbox // writes to conn
	asked chan struct{}   // has a value for each PMI request without a reply
	stop  chan struct{}   // closed when no more requests are forwarded
	// The field spawning is true within the lines of a spawn request. The goroutine that reads the
	// lines uses it.
	spawning bool
	once     sync.Once // closes stop
	child    *os.File  // the rank's end of conn, until the start
	input    io.WriteCloser
	feeding  atomic.Bool    // a goroutine writes a chunk to input
	fed      sync.WaitGroup // the goroutine that writes a chunk to input
	lines    sync.WaitGroup // the goroutine that reads lines from conn
	wrote    sync.WaitGroup // the goroutine that writes lines to conn

	outputs [2]stream // standard output and error
	copies  sync.WaitGroup

	lock sync.Mutex
	over bool // the rank has ended, so its process id may be reused
}

// command describes the program that all ranks run.
type command struct {
	args, env []string
	dir       string
}

// newProcess prepares a rank. The argument local of newProcess is the number of the rank on its
// host.
func newProcess(out *Writer, s *Start, c *command, rank, local int) (*process, error) {
	p := &process{
		out: out, rank: rank, asked: make(chan struct{}, requestsMax), stop: make(chan struct{}),
	}
	if info, err := os.Stat(c.dir); err != nil || !info.IsDir() { // a clearer error
		return p, fmt.Errorf("%s is no directory to begin in", c.dir)
	}
	path, err := c.lookUp()
	if err != nil {
		return p, err
	}
	p.cmd = exec.Command(path, c.args[1:]...)
	p.cmd.Args[0] = c.args[0]
	p.cmd.Dir, p.cmd.SysProcAttr = c.dir, attributes()
	p.cmd.Env = slices.Concat(c.env, []string{
		"PMI_FD=" + strconv.Itoa(pmiFD), "PMI_RANK=" + strconv.Itoa(rank),
		"PMI_SIZE=" + strconv.Itoa(s.Size), "MPI_LOCALRANKID=" + strconv.Itoa(local),
		"MPI_LOCALNRANKS=" + strconv.Itoa(len(s.Ranks)),
	})
	if err := p.openOutputs(); err != nil {
		return p, err
	}
	if s.Stdin == rank {
		p.input, err = p.cmd.StdinPipe()
	}
	if err == nil {
		p.conn, p.child, err = socketPair()
	}
	if err != nil {
		p.closeOutputs()
		return p, err
	}
	p.cmd.ExtraFiles = []*os.File{p.child}
	return p, nil
}

// lookUp finds the program as a shell would, by the environment and the working directory of the
// ranks.
func (c *command) lookUp() (string, error) {
	name := c.args[0]
	if strings.Contains(name, "/") {
		return c.within(name), nil
	}
	for _, variable := range slices.Backward(c.env) {
		path, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(c.within(dir), name)); err == nil {
				return found, nil
			}
		}
		break
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// within resolves a path relative to the working directory of the ranks.
func (c *command) within(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.dir, path)
}

// explain adds details to the error of a rank that could not be started. The added details name the
// limit that was reached, or the missing interpreter of a script.
func explain(err error) error {
	var of *os.PathError
	switch {
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w: the limit of open files of one process (ulimit -n)", err)
	case errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: the limit of open files of this host", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w: the limit of processes (ulimit -u, or pids.max of a control group)", err)
	case errors.Is(err, syscall.ENOENT) && errors.As(err, &of):
		if first := interpreter(of.Path); first != "" {
			return fmt.Errorf("%w: its interpreter: %s", err, first)
		}
	}
	return err
}

// interpreter returns the first line of an existing script, or an empty string if the file is not a
// script.
func interpreter(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 128)
	n, _ := io.ReadFull(file, head) // A short file ends early.
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	return line
}

// socketPair returns the agent's end and the rank's end of a new socket.
func socketPair() (mine net.Conn, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // No other child may inherit the descriptors.
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	file := os.NewFile(uintptr(fds[0]), "pmi")
	defer file.Close()
	theirs = os.NewFile(uintptr(fds[1]), "pmi of a rank")
	if mine, err = net.FileConn(file); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return mine, theirs, nil
}

func (p *process) start() error {
	err := p.cmd.Start()
	_ = p.child.Close() // The rank has its own copy.
	if err != nil {
		_ = p.conn.Close() // No rank is at the other end.
		p.closeOutputs()
		return err
	}
	p.pmi = bounded.NewOutbox(p.conn, pmiBytesMax, pmiTime)
	p.lines.Go(p.readLines)
	p.wrote.Go(p.writeLines)
	for i := range p.outputs {
		o := &p.outputs[i]
		_ = o.child.Close() // The rank has its own copy.
		p.copies.Go(func() { o.copy(p.out, p.rank) })
	}
	return nil
}

// readLines forwards the PMI lines of the rank, until the rank closes its end of the socket. A line
// that is too long is forwarded as a line that the PMI server refuses, and no further lines are
// read.
func (p *process) readLines() {
	in := bounded.NewLines(p.conn, pmi.LineBytesMax-1)
	for {
		line, err := in.Next()
		long := errors.Is(err, bounded.ErrLong)
		if long {
			line = bytes.Repeat([]byte{'x'}, pmi.LineBytesMax)
		} else if err != nil {
			return
		}
		if !p.mayAsk(line) || p.out.Write(Frame{Kind: KindPMI, Rank: p.rank, Body: line}) != nil || long {
			return
		}
	}
}

// mayAsk waits until the rank may send another request. mayAsk returns false when no more requests
// are forwarded. A spawn request has several lines, and one reply: mayAsk counts its first line.
func (p *process) mayAsk(line []byte) bool {
	if p.spawning {
		p.spawning = !pmi.EndsSpawn(line)
		return true
	}
	p.spawning = pmi.BeginsSpawn(line)
	select {
	case p.asked <- struct{}{}:
		return true
	case <-p.stop:
		return false
	}
}

// writeLines writes PMI lines to the rank. A rank that does not read its PMI lines is killed.
func (p *process) writeLines() {
	p.pmi.Run()
	if errors.Is(p.pmi.Err(), bounded.ErrUntaken) {
		p.signal(syscall.SIGKILL)
	}
}

// wait waits for the rank's end, and reports the end to btlrun after all output of the rank.
func (p *process) wait() {
	err := p.cmd.Wait()
	p.lock.Lock()
	p.over = true
	p.lock.Unlock()
	over := time.Now().Add(lingering) // Children may keep the pipes open.
	_ = p.conn.SetReadDeadline(over)
	for i := range p.outputs {
		p.outputs[i].last(over)
	}
	hushed := time.AfterFunc(lingering, p.hush)
	p.fed.Wait() // The end of cmd has closed the input.
	p.lines.Wait()
	p.copies.Wait()
	hushed.Stop()
	p.pmi.Close(0) // The rank reads nothing more.
	p.wrote.Wait()
	p.closeOutputs()
	_ = p.conn.Close() // No rank is at the other end.
	var e Exit
	state, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && state.Signaled():
		e.Signal = int(state.Signal())
		if errors.Is(p.pmi.Err(), bounded.ErrUntaken) {
			e.Error = []byte(errUnread.Error())
		}
	case ok:
		e.Status = state.ExitStatus()
	default:
		e = Exit{Status: 1, Error: []byte(err.Error())}
	}
	_ = p.out.Write(exitFrame(p.rank, e)) // An error means that btlrun is gone.
}

// take passes a PMI line, or a chunk of standard input, to the rank, or kills the rank. The method
// take returns ErrFrame if btlrun sends input before the rank has taken the previous chunk.
func (p *process) take(f Frame) error {
	switch {
	case p.cmd == nil: // The rank was never started.
	case f.Kind == KindKill:
		p.signal(syscall.SIGKILL)
	case f.Kind == KindPMI:
		p.pmi.Put(f.Body)
		select {
		case <-p.asked:
		default: // btlrun has sent a reply without a request.
		}
	case p.input == nil:
	case p.feeding.Load():
		return fmt.Errorf("%w: more input for rank %d than it has taken", ErrFrame, p.rank)
	case len(f.Body) == 0:
		_ = p.input.Close() // After an error the rank's end is reported.
		p.input = nil
	default:
		p.give(f.Body)
	}
	return nil
}

// give starts a goroutine that writes a chunk of standard input to the rank. If the rank has ended,
// give drops the chunk and reports it as taken, so that btlrun reads its standard input to the end.
func (p *process) give(piece []byte) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.over {
		_ = p.out.Write(Frame{Kind: KindTaken, Rank: p.rank})
		return
	}
	p.feeding.Store(true)
	input := p.input
	p.fed.Go(func() { p.feed(input, piece) })
}

// feed writes a chunk of standard input to the rank, and reports that the rank has taken the chunk.
func (p *process) feed(input io.Writer, piece []byte) {
	_, _ = input.Write(piece) // A rank may end without reading.
	p.feeding.Store(false)    // The report allows btlrun to send the next chunk.
	_ = p.out.Write(Frame{Kind: KindTaken, Rank: p.rank})
}

// signal sends a signal to the rank and its children, if the rank has not ended.
func (p *process) signal(s syscall.Signal) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if !p.over {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // The rank may have ended meanwhile.
	}
}
