package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/test/sim/cluster"
)

// pair is two hosts with modules, not connected yet.
func pair(t *testing.T, judge cluster.Judge) (c *cluster.Cluster, a, b *cluster.Host) {
	t.Helper()
	c, err := cluster.New(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	a, b = c.Add("a"), c.Add("b")
	c.SetPaths(sim.Path{Delay: 10 * time.Microsecond})
	for i, h := range c.Hosts {
		n := uint64(i) << 32
		err := h.Open(btl.Config{
			SendBuffers: 64, RecvDepth: 64, Random: func() uint64 { n++; return n },
		})
		if err != nil {
			t.Fatal(err)
		}
		h.Start(judge)
	}
	return c, a, b
}

func TestConnectSendIdleClose(t *testing.T) {
	passes := 0
	c, a, b := pair(t, func(n int, err error) (int, error) { passes++; return n, err })
	got := ""
	receive := func(_ *btl.Endpoint, _ btl.Tag, m []byte) { got = string(m) }
	if err := b.Mod.Handle(1, receive); err != nil {
		t.Fatal(err)
	}
	ep, err := a.Connect(b, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := ep.SendImmediate(c.Now(), 1, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	a.Kick()
	if err := c.CheckIdle(); err == nil || !strings.HasPrefix(err.Error(), "a: ") {
		t.Errorf("idle with a message under way: %v", err)
	}
	idle := func() bool { return got == "hello" && c.CheckIdle() == nil }
	if err := c.Until(c.Now().Add(time.Second), idle); err != nil {
		t.Errorf("%v: got %q, %v", err, got, c.CheckIdle())
	}
	if err := errors.Join(c.Check(), c.Close()); err != nil || passes == 0 {
		t.Errorf("%v after %d passes", err, passes)
	}
	if a.Mod != nil || a.Deadline() != mono.Never {
		t.Error("a closed module is still there")
	}
}

func TestWhatDoesNotHappen(t *testing.T) {
	c, a, b := pair(t, nil)
	c.SetPath(a.Node, b.Node, sim.Path{Cut: true})
	if _, err := a.Connect(b, time.Millisecond); !errors.Is(err, cluster.ErrLate) {
		t.Errorf("connected through a cut cable: %v", err)
	}
	c.StepsMax = c.Steps + 3
	never := func() bool { return false }
	if err := c.Until(mono.Never, never); !errors.Is(err, cluster.ErrSteps) || c.Steps < c.StepsMax {
		t.Errorf("%d steps of %d: %v", c.Steps, c.StepsMax, err)
	}
	c.StepsMax = 0
	a.Crash()
	b.Crash()
	if err := c.Until(mono.Never, never); !errors.Is(err, cluster.ErrPending) {
		t.Errorf("a network without processes: %v", err)
	}
}

// What the network has found wrong with the use that was made of it is in Check.
func TestCheckReportsMisuse(t *testing.T) {
	c, _, _ := pair(t, nil)
	dom, err := c.Add("c").Domain(btl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Errorf("nothing was done yet: %v", err)
	}
	if err := dom.DeregisterRegion(7); err == nil || !errors.Is(c.Check(), c.Violations()[0]) {
		t.Errorf("a region that is not there: %v, %v", err, c.Check())
	}
}
