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
	"unicode"

	"gobtl/cmd/btlrun/agent"
)

// ErrAgent: the agent of a host does not answer, or not as one does.
var ErrAgent = errors.New("no agent")

// ErrUnreached: a host's agent was never heard.
var ErrUnreached = errors.New("cannot be reached")

// host is a host at work.
type host struct {
	name    string
	ranks   []int
	left    int // ranks that have not ended
	in      io.WriteCloser
	out     io.ReadCloser
	frames  chan agent.Frame // on their way to the agent
	credit  credits          // and what it may be told of its ranks' output
	rsh     *exec.Cmd        // nil here
	remarks *remarks         // what it says on standard error
	stopped chan struct{}    // closed when its reader has ended
}

// event is a frame from a host's reader, or the reason why no more frames come.
type event struct {
	host  *host
	frame agent.Frame
	err   error
}

// connect starts the agent of a host.
func (j *job) connect(h *host, index int, local bool) error {
	if local {
		theirs, mine := io.Pipe()
		ours, yours := io.Pipe()
		h.in, h.out = mine, ours
		go func() {
			err := agent.Serve(theirs, yours)
			_ = theirs.CloseWithError(io.ErrClosedPipe)
			_ = yours.CloseWithError(err) // nil is the end
		}()
		return nil
	}
	quoted := "'" + strings.ReplaceAll(j.Agent, "'", `'\''`) + "'"
	args := append(j.Rsh[1:len(j.Rsh):len(j.Rsh)], h.name, quoted, "agent")
	h.rsh = exec.Command(j.Rsh[0], args...)
	h.rsh.SysProcAttr = remoteShell()
	h.rsh.WaitDelay = time.Second
	h.remarks = &remarks{lines: j.remarks, host: index}
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

// begin starts the goroutines of a host, and has its agent start the ranks.
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

// write carries frames to the agent, until the queue is closed: that is the agent's end.
func (j *job) write(h *host) {
	out := agent.NewWriter(h.in)
	var err error
	put := func(f agent.Frame) {
		if err == nil {
			err = out.Write(f) // Why it fails is what the reader finds out.
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
	_ = h.in.Close() // It has taken all that it will.
}

// read forwards the frames of the agent: output to its queue, all others to the loop.
func (j *job) read(h *host) {
	defer close(h.stopped)
	err := j.readFrames(h)
	if h.rsh != nil {
		if err != nil { // It is no agent, or does not know that it is over: the end of its input says so.
			_ = h.in.Close()
			_ = h.out.Close()
			defer time.AfterFunc(killed, func() { _ = h.rsh.Process.Kill() }).Stop()
		}
		err = h.why(err, h.rsh.Wait())
	}
	j.tell(event{host: h, err: err})
}

// why returns the reason why nothing more comes from a host, or nil after an orderly end. It is the
// error of the host's reader, or the exit status of the remote shell with its last message.
func (h *host) why(found, ended error) error {
	last := h.remarks.last()
	if found == nil {
		found = ended
	}
	if found == nil || errors.Is(found, ErrAgent) {
		h.remarks.add(last)
		return found
	}
	text := plain(last)
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
		return fmt.Errorf("%w: it says %.80q", ErrAgent, plain(greeting))
	}
	for {
		f, err := agent.Read(in)
		var text *agent.NoFrame
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &text):
			return fmt.Errorf("%w: it says %.80q", ErrAgent, plain(h.restOf(in, text.Head)))
		case err != nil:
			return err
		}
		ofRank := f.Kind != agent.KindSignalled
		if ofRank && (f.Rank < 0 || f.Rank >= j.Size || j.at[f.Rank] != h) {
			return fmt.Errorf("%w: it speaks of rank %d", ErrAgent, f.Rank)
		}
		switch f.Kind {
		case agent.KindStdout, agent.KindStderr:
			if !j.outlet(f.Kind).add(f.Rank, f.Body, h) {
				return fmt.Errorf("%w: more output of rank %d than it has credit for", ErrAgent, f.Rank)
			}
		case agent.KindExit, agent.KindPMI, agent.KindTaken, agent.KindSignalled:
			if !j.tell(event{host: h, frame: f}) {
				return nil
			}
		default:
			return fmt.Errorf("%w: kind %d from an agent", ErrAgent, f.Kind)
		}
	}
}

// restOf is a piece of text whose beginning was taken for a frame, as far as it comes soon. Nothing
// more is read from the host.
func (h *host) restOf(in *bufio.Reader, head []byte) []byte {
	defer time.AfterFunc(textMost, func() { _ = h.out.Close() }).Stop()
	rest, _ := in.Peek(160) // of what ends early that is all
	return append(head, rest...)
}

// textMost bounds the wait for the rest of a text.
const textMost = 200 * time.Millisecond

// plain returns the first line of untrusted text, without control sequences of terminals.
func plain(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, line)
}

// tell gives the loop an event, unless it has ended.
func (j *job) tell(e event) bool {
	select {
	case j.events <- e:
		return true
	case <-j.done:
		return false
	}
}

// send gives a frame to the agent of a host. A host with so much under way is stuck.
func (h *host) send(f agent.Frame) bool {
	select { // A host that was never started has no queue, and nobody who would hear.
	case h.frames <- f:
		return true
	default:
		return false
	}
}
