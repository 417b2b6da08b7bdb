//go:build unix

package job

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"gobtl/cmd/btlrun/agent"
)

// draining is a job whose ranks have ended, and whose last output nobody reads yet.
func draining(to stuck, signals chan os.Signal, suspend func()) *job {
	j := &job{unwritable: make(chan error, 2)}
	j.Signals, j.Suspend, j.Stderr = signals, suspend, new(bytes.Buffer)
	j.stdout = newOutlet(newOutput(to, nil, true), agent.KindStdout)
	j.stderr = newOutlet(newOutput(new(bytes.Buffer), nil, true), agent.KindStderr)
	j.stdout.say("the last line\n")
	return j
}

// TestDrain writes the last output to its end, whatever signals a terminal sends meanwhile.
func TestDrain(t *testing.T) {
	t.Parallel()
	to, signals, stops := make(stuck), make(chan os.Signal), 0
	j := draining(to, signals, func() { stops++ })
	ended := make(chan struct{})
	go func() {
		j.drain()
		close(ended)
	}()
	for _, s := range []os.Signal{syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGUSR1} {
		signals <- s
	}
	close(to)
	<-ended
	<-j.stdout.done
	if j.status != 0 || stops != 1 {
		t.Errorf("status %d, stopped %d times", j.status, stops)
	}
}

// TestDrainEnds cuts the last output when a signal asks btlrun to end, and says so by the status.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	to, signals := make(stuck), make(chan os.Signal, 1)
	j := draining(to, signals, nil)
	signals <- syscall.SIGTERM
	j.drain()
	if want := 128 + int(syscall.SIGTERM); j.status != want {
		t.Errorf("status %d, want %d", j.status, want)
	}
	close(to)
}
