//go:build unix

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// agent holds the ranks of a job on one host.
type agent struct {
	out   *Writer
	ranks map[int]*process
	ended sync.WaitGroup
}

// Serve runs an agent, which starts the ranks of one host and carries their input and output. Serve
// carries out the frames from the argument in until it ends, and then kills all ranks that are
// left. Serve returns after all ranks have ended. Serve returns the error of the argument in, or
// nil if the input ended in order.
func Serve(in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, Greeting); err != nil {
		return err
	}
	a := &agent{out: NewWriter(out), ranks: map[int]*process{}}
	err := a.loop(in)
	a.signal(syscall.SIGKILL)
	for _, p := range a.ranks {
		p.hush() // Without btlrun, no further credit can arrive.
	}
	a.ended.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (a *agent) loop(in io.Reader) error {
	for {
		f, err := Read(in)
		if err != nil {
			return err
		}
		switch f.Kind {
		case KindStart:
			err = a.start(f.Body)
		case KindPMI, KindStdin, KindKill:
			p := a.ranks[f.Rank]
			if p == nil {
				return fmt.Errorf("%w: for rank %d", ErrFrame, f.Rank)
			}
			err = p.take(f)
		case KindCredit:
			err = a.credit(f)
		case KindSignal:
			if len(f.Body) != 1 {
				return fmt.Errorf("%w: a signal of %d bytes", ErrFrame, len(f.Body))
			}
			a.signal(syscall.Signal(f.Body[0]))
			err = a.out.Write(Frame{Kind: KindSignalled, Body: f.Body})
		default:
			err = fmt.Errorf("%w: kind %d for an agent", ErrFrame, f.Kind)
		}
		if err != nil {
			return err
		}
	}
}

// The method credit allows a rank to write further bytes of output.
func (a *agent) credit(f Frame) error {
	of, count, err := credit(f.Body)
	p := a.ranks[f.Rank]
	switch {
	case err != nil:
		return err
	case p == nil:
		return fmt.Errorf("%w: credit for rank %d", ErrFrame, f.Rank)
	case p.cmd == nil: // The rank was never started.
		return nil
	}
	if !p.window(of).give(count) {
		return fmt.Errorf("%w: more credit than rank %d has used", ErrFrame, f.Rank)
	}
	return nil
}

// start starts the ranks that a Start frame describes.
func (a *agent) start(body []byte) error {
	var s Start
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if len(s.Args) == 0 || len(a.ranks) > 0 {
		return fmt.Errorf("%w: nothing to start, or twice", ErrFrame)
	}
	c := command{args: asStrings(s.Args), env: asStrings(s.Env), dir: string(s.Dir)}
	for local, rank := range s.Ranks {
		if a.ranks[rank] != nil {
			return fmt.Errorf("%w: rank %d twice", ErrFrame, rank)
		}
		p, err := newProcess(a.out, &s, &c, rank, local)
		if err == nil {
			err = p.start()
		}
		if err != nil {
			end := Exit{Status: notStarted(err), Error: []byte(explain(err).Error())}
			if err := a.out.Write(exitFrame(rank, end)); err != nil {
				return err
			}
			p = &process{over: true} // a placeholder that ignores all frames
		} else {
			a.ended.Go(p.wait)
		}
		a.ranks[rank] = p
	}
	return nil
}

// notStarted returns the exit status that shells use for a command that could not be started.
func notStarted(err error) int {
	if errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "not found") {
		return 127
	}
	return 126
}

func exitFrame(rank int, e Exit) Frame {
	body, err := json.Marshal(e)
	if err != nil {
		panic("agent: an Exit that is no JSON: " + err.Error())
	}
	return Frame{Kind: KindExit, Rank: rank, Body: body}
}

// signal sends a signal to all ranks that have not ended, and to their children.
func (a *agent) signal(s syscall.Signal) {
	for _, p := range a.ranks {
		p.signal(s)
	}
}
