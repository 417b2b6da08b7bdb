package main

import (
	"io"
	"strings"
	"testing"
)

// TestJoiners checks the limit of receivers that join, from the command line to the configuration.
func TestJoiners(t *testing.T) {
	for args, want := range map[string]int{
		"":             joinersDefault,
		"--joiners 5":  5,
		"--joiners 0":  -1, // no receiver
		"--joiners 32": 32,
	} {
		var c cli
		p, err := newParser(&c, io.Discard, io.Discard, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		line := "-s --mode unreliable --listen :0 " + args
		if _, err := p.Parse(strings.Fields(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := c.config().JoinersMax; got != want {
			t.Errorf("%s: JoinersMax %d, want %d", line, got, want)
		}
	}
	var c cli
	p, err := newParser(&c, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"--joiners 5", "-s --joiners 5", "-s --mode unreliable --joiners -1",
		"-s --mode unreliable --group 239.1.2.3:5000 --joiners 5",
	} {
		if _, err := p.Parse(strings.Fields(line)); err == nil {
			t.Errorf("%s: no error", line)
		}
	}
}
