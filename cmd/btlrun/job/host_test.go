//go:build unix

package job

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlrun/agent"
)

// twoHosts returns a job with rank 0 on the first host and rank 1 on the second host. The agent of
// neither host runs.
func twoHosts(t *testing.T) *job {
	t.Helper()
	j := &job{events: make(chan event), done: make(chan struct{})}
	j.Size, j.Stdin, j.StartTimeout = 2, strings.NewReader(""), time.Minute
	j.input = newInput(j.Stdin, j.done)
	for rank := range j.Size {
		j.hosts = append(j.hosts, &host{ranks: []int{rank}, credit: newCredits()})
	}
	j.at = j.hosts
	return j
}

// hear passes a greeting and frames of a host's agent to the reader of the host, and returns the
// error of the reader.
func hear(t *testing.T, j *job, h *host, frames ...agent.Frame) error {
	t.Helper()
	said := bytes.NewBufferString(agent.Greeting)
	for _, f := range frames {
		if err := agent.NewWriter(said).Write(f); err != nil {
			t.Fatal(err)
		}
	}
	h.out = io.NopCloser(said)
	return j.readFrames(h)
}

// The agent of a host may not say that standard input is taken if another host has the rank that
// reads it, or if no input was sent.
func TestTakenOfNothing(t *testing.T) {
	t.Parallel()
	for rank := range 2 {
		j := twoHosts(t)
		close(j.done)
		err := hear(t, j, j.hosts[rank], agent.Frame{Kind: agent.KindTaken, Rank: rank})
		if !errors.Is(err, ErrAgent) {
			t.Errorf("rank %d: %v, want %v", rank, err, ErrAgent)
		}
	}
}

// An agent says once that a chunk of standard input is taken. Only this lets the next chunk come.
func TestTakenOnce(t *testing.T) {
	t.Parallel()
	j := twoHosts(t)
	defer close(j.done)
	j.input.from = strings.NewReader("chunk")
	go j.input.read()
	f, taken := j.input.frame(<-j.input.chunks), agent.Frame{Kind: agent.KindTaken}
	if string(f.Body) != "chunk" {
		t.Errorf("the chunk is %q", f.Body)
	}
	other := agent.Frame{Kind: agent.KindTaken, Rank: 1}
	if err := hear(t, j, j.hosts[1], other); !errors.Is(err, ErrAgent) {
		t.Errorf("taken by another rank: %v, want %v", err, ErrAgent)
	}
	select {
	case <-j.input.chunks:
		t.Error("the input goes on before its rank has taken the chunk")
	default:
	}
	if err := hear(t, j, j.hosts[0], taken, taken); !errors.Is(err, ErrAgent) {
		t.Errorf("taken twice: %v, want %v", err, ErrAgent)
	}
	if f := j.input.frame(<-j.input.chunks); len(f.Body) != 0 {
		t.Errorf("behind the last chunk: %q", f.Body)
	}
	if err := hear(t, j, j.hosts[0], taken); !errors.Is(err, ErrAgent) {
		t.Errorf("the end is taken: %v, want %v", err, ErrAgent)
	}
}

// An agent sends no output without bytes: such a frame would need no credit, and yet need memory.
func TestEmptyOutput(t *testing.T) {
	t.Parallel()
	for _, kind := range []agent.Kind{agent.KindStdout, agent.KindStderr} {
		j := twoHosts(t)
		close(j.done)
		var to bytes.Buffer
		j.stdout = newOutlet(newOutput(&to, nil, false), agent.KindStdout)
		j.stderr = newOutlet(newOutput(&to, nil, false), agent.KindStderr)
		err := hear(t, j, j.hosts[1], agent.Frame{Kind: kind, Rank: 1})
		if !errors.Is(err, ErrAgent) {
			t.Errorf("kind %d: %v, want %v", kind, err, ErrAgent)
		}
		for _, o := range []*outlet{j.stdout, j.stderr} {
			o.close()
			<-o.done
		}
	}
}
