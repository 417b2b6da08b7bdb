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
	"gobtl/internal/mono"
	"gobtl/vnic"
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

// TestTellRarely checks that passes in close succession do not look at the states of all hosts each
// time, and that no state is forgotten.
func TestTellRarely(t *testing.T) {
	m := &manager{
		logged: make(map[string]*hostLog), core: vnic.NewManager(vnic.ManagerConfig{Name: "m"}),
	}
	plan := func(hosts ...vnic.PlanHost) {
		p := &vnic.Plan{Hosts: hosts}
		if err := p.Complete(); err != nil {
			t.Fatal(err)
		}
		m.core.SetPlan(p)
	}
	a, b := vnic.PlanHost{Name: "a", LID: 1}, vnic.PlanHost{Name: "b", LID: 2}
	plan(a)
	if next := m.tellDue(1); next != mono.Never || m.logged["a"] == nil {
		t.Fatalf("the first pass: next %v", next)
	}
	plan(a, b)
	next := m.tellDue(2)
	if next != mono.Time(1).Add(tellEvery) || m.logged["b"] != nil {
		t.Fatalf("the second pass: next %v", next)
	}
	if m.tellDue(next) != mono.Never || m.logged["b"] == nil {
		t.Error("the state of a host is forgotten")
	}
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
