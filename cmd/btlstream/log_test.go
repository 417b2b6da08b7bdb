package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gobtl/internal/bounded"
	"gobtl/stream"
)

// The port's goroutine does not wait for standard error that accepts nothing.
func TestBlockedTerminal(t *testing.T) {
	from, to := io.Pipe()
	env := &environment{level: logDebug, log: bounded.NewLog(to, "btlstream")}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for i := range 10_000 {
			env.logf(logWarning, "line %d", i)
		}
	}()
	select {
	case <-logged:
	case <-time.After(time.Minute):
		t.Fatal("a line waits for the terminal")
	}
	_ = from.Close() // never fails, and ends the write
	env.log.Close()
}

// A stranger that is refused again and again does not fill the log. The log tells how many lines
// were left out, also at the end of the program.
func TestLogOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		env := &environment{log: bounded.NewLog(&out, "btlstream"), level: logNotice}
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
		env.log.Close()
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
