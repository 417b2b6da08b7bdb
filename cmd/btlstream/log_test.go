package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"gobtl/stream"
)

// The port's goroutine does not wait for standard error that accepts nothing. Each line is written
// later or counted.
func TestBlockedTerminal(t *testing.T) {
	const lines, patience = 10_000, time.Minute
	from, to := io.Pipe()
	env := &environment{level: logDebug, log: newLogger(to)}
	s := &session{env: env}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for i := range lines {
			s.refused(stream.Refusal{Peer: fmt.Sprint("peer ", i), Err: errors.New("no")})
			if _, err := env.log.Write([]byte("\r50 %\n")); err != nil { // of the progress bar
				t.Error(err)
			}
		}
	}()
	select {
	case <-logged:
	case <-time.After(patience):
		t.Fatal("a refusal waits for the terminal")
	}
	go func() {
		env.log.close()
		_ = to.Close() // never fails
	}()
	written, dropped := 0, 0
	for in := bufio.NewScanner(from); in.Scan(); {
		var n int
		switch _, err := fmt.Sscanf(in.Text(), "btlstream: %d lines dropped here", &n); {
		case err == nil:
			dropped += n
		case strings.HasPrefix(in.Text(), "btlstream: refused, peer "):
			written++
		}
	}
	if written == 0 || written > linesMax+1 || written+dropped != lines {
		t.Errorf("%d lines written, %d dropped, of %d", written, dropped, lines)
	}
	env.logf(logError, "after the end") // must not panic
}

// The last lines of a program are written before it ends.
func TestLastLine(t *testing.T) {
	var out strings.Builder
	if got := run([]string{"--no-such-option"}, nil, io.Discard, &out); got != exitUsage {
		t.Errorf("exit status %d", got)
	}
	if !strings.Contains(out.String(), "--no-such-option") {
		t.Errorf("standard error is %q", out.String())
	}
}
