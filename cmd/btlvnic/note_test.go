//go:build linux

package main

import (
	"fmt"
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
		m := &manager{env: &environment{stderr: &out}, logged: make(map[string]*hostLog)}
		for i := range 1000 {
			m.note("liar", fmt.Sprint("problem ", i), true)
		}
		m.note("honest", "is connected", true)
		time.Sleep(time.Second)
		m.note("liar", "is connected", true)
		text := out.String()
		if n := strings.Count(text, "host liar: "); n != bounded.LinesPerSecond+1 ||
			!strings.Contains(text, fmt.Sprint("host liar: ", 1000-bounded.LinesPerSecond, " more")) ||
			!strings.Contains(text, "host honest: is connected") {
			t.Errorf("%d lines about the liar: %s", n, text)
		}
	})
}
