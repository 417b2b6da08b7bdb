//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gobtl/internal/bounded"
)

// TestNoteOfFlappingHost checks that a host whose state changes again and again does not fill the
// log, and that the lines about other hosts are still written.
func TestNoteOfFlappingHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		env := &environment{log: bounded.NewLog(&out, "btlvnic")}
		m := &manager{env: env, logged: make(map[string]*hostLog)}
		for i := range 1000 {
			m.note("liar", fmt.Sprint("problem ", i), true)
		}
		m.note("honest", "is connected", true)
		time.Sleep(time.Second)
		m.note("liar", "is connected", true)
		env.log.Close()
		text := out.String()
		if n := strings.Count(text, "host liar: "); n != bounded.LinesPerSecond+1 ||
			!strings.Contains(text, fmt.Sprint("host liar: ", 1000-bounded.LinesPerSecond, " more")) ||
			!strings.Contains(text, "host honest: is connected") {
			t.Errorf("%d lines about the liar: %s", n, text)
		}
	})
}

// TestBlockedTerminal checks that a progress loop does not wait for standard error that accepts
// nothing.
func TestBlockedTerminal(t *testing.T) {
	from, to := io.Pipe()
	env := &environment{log: bounded.NewLog(to, "btlvnic")}
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		for i := range 10_000 {
			env.notef("line %d", i)
		}
	}()
	select {
	case <-noted:
	case <-time.After(time.Minute):
		t.Fatal("a line waits for the terminal")
	}
	_ = from.Close() // never fails, and ends the write
	env.log.Close()
}
