//go:build unix

package job

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"gobtl/cmd/btlrun/agent"
	"gobtl/internal/plain"
)

// ErrAgent means that the agent of a host does not answer, or that its answer violates the
// protocol.
var ErrAgent = errors.New("no agent")

// ErrUnreached means that no message of the host's agent has ever arrived.
var ErrUnreached = errors.New("cannot be reached")

// errStuck means that the agent of a host does not read its frames.
var errStuck = errors.New("its agent takes nothing any more")

// host is the state of a host in a running job.
type host struct {
	name    string
	ranks   []int
	left    int // ranks that have not ended
	in      io.WriteCloser
	out     io.ReadCloser
	frames  chan agent.Frame // frames to be sent to the agent
	credit  credits          // credit to be sent for the ranks' output
	rsh     *exec.Cmd        // the remote shell; nil on this host
	remarks *remarks         // standard error of the remote shell; nil on this host
	stopped chan struct{}    // closed when the reader of the host has ended
	stuck   bool             // the agent takes no more frames
}

// event is a frame from a host's agent, or the reason why no more frames arrive.
type event struct {
	host  *host
	frame agent.Frame
	err   error
}

// connect starts the agent of a host, either in this process or through a remote shell.
func (j *job) connect(h *host, local bool) error {
	if local {
		theirs, mine := io.Pipe()
		ours, yours := io.Pipe()
		h.in, h.out = mine, ours
		go func() {
			err := agent.Serve(theirs, yours)
			_ = theirs.CloseWithError(io.ErrClosedPipe)
			_ = yours.CloseWithError(err) // a nil error means the end
		}()
		return nil
	}
	quoted := "'" + strings.ReplaceAll(j.Agent, "'", `'\''`) + "'"
	args := append(j.Rsh[1:len(j.Rsh):len(j.Rsh)], h.name, quoted, "agent")
	h.rsh = exec.Command(j.Rsh[0], args...)
	h.rsh.SysProcAttr = remoteShell()
	h.rsh.WaitDelay = time.Second
	h.remarks = newRemarks(j.Stderr, h.name)
	h.rsh.Stderr = h.remarks
	var err error
	if h.in, err = h.rsh.StdinPipe(); err != nil {
		return err
	}
	if h.out, err = h.rsh.StdoutPipe(); err != nil {
		return err
	}
	return h.rsh.Start()
}

// begin starts the goroutines of a host, and tells the host's agent to start the ranks.
func (j *job) begin(h *host) error {
	body, err := json.Marshal(agent.Start{
		Ranks: h.ranks, Size: j.Size, Args: agent.AsBytes(j.Args), Env: agent.AsBytes(j.env),
		Dir: []byte(j.Dir), Stdin: j.stdinRank(),
	})
	if err != nil {
		return err
	}
	if len(body) > agent.StartBytesMax {
		return fmt.Errorf("command and environment take %d bytes, at most %d", len(body),
			agent.StartBytesMax)
	}
	go j.read(h)
	go j.write(h)
	h.frames <- agent.Frame{Kind: agent.KindStart, Body: body}
	return nil
}

// write sends frames to the agent until the queue h.frames is closed, and then ends the agent.
func (j *job) write(h *host) {
	out := agent.NewWriter(h.in)
	var err error
	put := func(f agent.Frame) {
		if err == nil {
			err = out.Write(f) // The reader finds the reason for an error.
		}
	}
	for more := true; more; {
		var f agent.Frame
		select {
		case f, more = <-h.frames:
			if more {
				put(f)
			}
		case <-h.credit.due:
			h.credit.take(put)
		}
	}
	_ = h.in.Close() // The end of its input ends the agent.
}

// read receives the frames of the agent. Frames with output go to the queue of output, reports that
// standard input was taken go to the input, and all other frames go to the goroutine of the job.
func (j *job) read(h *host) {
	defer close(h.stopped)
	err := j.readFrames(h)
	if h.rsh != nil {
		if err != nil { // The end of its input must end a faulty agent.
			_ = h.in.Close()
			_ = h.out.Close()
			defer time.AfterFunc(killed, func() { _ = h.rsh.Process.Kill() }).Stop()
		}
		err = h.why(err, h.rsh.Wait())
	}
	j.tell(event{host: h, err: err})
}

// why returns the reason why no further frames arrive from a host, or nil after an orderly end. The
// error that why returns is either a read error, or the exit status of the remote shell with the
// last line that the shell has written.
func (h *host) why(found, ended error) error {
	last := h.remarks.last()
	if found == nil {
		found = ended
	}
	if found == nil || errors.Is(found, ErrAgent) {
		h.remarks.add(last)
		return found
	}
	text := firstLine(last)
	switch {
	case text != "" && errors.Is(found, ErrUnreached) && ended != nil:
		return fmt.Errorf("%w: %s (%s: %w)", found, text, h.rsh.Path, ended)
	case errors.Is(found, ErrUnreached) && ended != nil:
		return fmt.Errorf("%w: %s: %w", found, h.rsh.Path, ended)
	case text != "":
		return fmt.Errorf("%w: %s", found, text)
	}
	return found
}

func (j *job) readFrames(h *host) error {
	in := bufio.NewReaderSize(h.out, agent.BodyBytesMax)
	late := time.AfterFunc(j.StartTimeout, func() { _ = h.out.Close() })
	greeting, err := in.ReadSlice('\n')
	if !late.Stop() {
		return fmt.Errorf("%w: no answer within %v", ErrUnreached, j.StartTimeout)
	}
	other, known := strings.CutPrefix(string(greeting), agent.GreetingPrefix)
	switch {
	case err == nil && string(greeting) == agent.Greeting:
		h.remarks.pass()
	case err != nil && len(greeting) == 0:
		return ErrUnreached
	case err == nil && known:
		return fmt.Errorf("%w: btlrun there speaks version %.20q, this one %s: all hosts must "+
			"have the same", ErrAgent, strings.TrimSpace(other), agent.Version)
	default:
		return fmt.Errorf("%w: it says %.80q", ErrAgent, firstLine(greeting))
	}
	for {
		f, err := agent.Read(in)
		var text *agent.NoFrame
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &text):
			return fmt.Errorf("%w: it says %.80q", ErrAgent, firstLine(h.restOf(in, text.Head)))
		case err != nil:
			return err
		}
		ofRank := f.Kind != agent.KindSignalled
		if ofRank && (f.Rank < 0 || f.Rank >= j.Size || j.at[f.Rank] != h) {
			return fmt.Errorf("%w: it speaks of rank %d", ErrAgent, f.Rank)
		}
		switch f.Kind {
		case agent.KindStdout, agent.KindStderr:
			if len(f.Body) == 0 {
				return fmt.Errorf("%w: output of rank %d without bytes", ErrAgent, f.Rank)
			}
			if !j.outlet(f.Kind).add(f.Rank, f.Body, h) {
				return fmt.Errorf("%w: more output of rank %d than it has credit for", ErrAgent, f.Rank)
			}
		case agent.KindTaken:
			if f.Rank != j.stdinRank() || !j.input.accept() {
				return fmt.Errorf("%w: rank %d has taken input that it was not sent", ErrAgent, f.Rank)
			}
		case agent.KindExit, agent.KindPMI, agent.KindSignalled:
			if !j.tell(event{host: h, frame: f}) {
				return nil
			}
		default:
			return fmt.Errorf("%w: kind %d from an agent", ErrAgent, f.Kind)
		}
	}
}

// restOf reads the rest of a text that was mistaken for a frame, for at most textMost.
func (h *host) restOf(in *bufio.Reader, head []byte) []byte {
	defer time.AfterFunc(textMost, func() { _ = h.out.Close() }).Stop()
	rest, _ := in.Peek(160) // fewer bytes if the text ends early
	return append(head, rest...)
}

// textMost is the longest wait for the rest of a text that is not a frame.
const textMost = 200 * time.Millisecond

// firstLine returns the first line of untrusted text, made printable.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return plain.Line(line)
}

// tell passes an event to the goroutine of the job, and returns false if that goroutine has ended.
func (j *job) tell(e event) bool {
	select {
	case j.events <- e:
		return true
	case <-j.done:
		return false
	}
}

// send queues a frame for the agent of a host. send returns false if the queue is full, because the
// agent of the host does not read.
func (h *host) send(f agent.Frame) bool {
	select { // The queue of a host that was never started is nil.
	case h.frames <- f:
		return true
	default:
		return false
	}
}
