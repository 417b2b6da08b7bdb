package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gobtl/internal/bounded"
	"gobtl/stream"
)

// The port's goroutine does not wait for standard error that accepts nothing. Each line is written
// later or counted.
func TestBlockedTerminal(t *testing.T) {
	const lines, patience = 10_000, time.Minute
	from, to := io.Pipe()
	env := &environment{level: logDebug, log: newLogger(to)}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for i := range lines {
			env.logf(logWarning, "line %d", i)
			if _, err := env.log.Write([]byte("\r50 %\n")); err != nil { // of the progress bar
				t.Error(err)
			}
		}
	}()
	select {
	case <-logged:
	case <-time.After(patience):
		t.Fatal("a line waits for the terminal")
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
		case strings.HasPrefix(in.Text(), "btlstream: line "):
			written++
		}
	}
	if written == 0 || written > linesMax+1 || written+dropped != lines {
		t.Errorf("%d lines written, %d dropped, of %d", written, dropped, lines)
	}
	env.logf(logError, "after the end") // must not panic
}

// A stranger that is refused again and again does not fill the log. The log tells how many lines
// were left out, also at the end of the program.
func TestLogOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		env := &environment{log: newLogger(&out), level: logNotice}
		s := &session{env: env, c: &cli{}}
		const seconds, each = 3, 1000
		for i := range seconds * each {
			s.refused(stream.Refusal{
				Reason: stream.RefusedMismatch, Peer: fmt.Sprintf("192.0.2.66:%d", 1024+i),
				Err: fmt.Errorf("%w: the sender speaks version 0", stream.ErrMismatch),
			})
			time.Sleep(time.Second / each)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		env.log.close()
		lines := strings.Count(out.String(), "\n")
		told := strings.Count(out.String(), fmt.Sprint(each-bounded.LinesPerSecond, " more like this"))
		if lines != seconds*bounded.LinesPerSecond+1 || told != seconds {
			t.Errorf("%d lines, %d of them with the number of those left out", lines, told)
		}
	})
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
