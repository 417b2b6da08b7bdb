//go:build linux

package agent

import (
	"testing"

	"gobtl/internal/mono"
)

// TestShares: peers that acknowledge nothing have a quarter of the trains and of the memory, even
// if they are many. The other peers have the same shares with and without them.
func TestShares(t *testing.T) {
	const now = mono.Time(1e12)
	for _, n := range []struct{ working, silent int }{
		{1, 0}, {0, 1}, {2, 1}, {100, 0}, {100, 200}, {1, 700}, {300, 3},
	} {
		a := &Agent{mates: make(map[uint32]*peer)}
		for i := range n.working + n.silent {
			a.mates[uint32(i)] = &peer{acked: i < n.working, worksUntil: now}
		}
		working, quiet := a.shares(now)
		if got := n.silent * quiet.trains; got > trainsFlyingMax/quietPart {
			t.Errorf("%+v: silent peers may have %d trains under way, of %d", n, got, trainsFlyingMax)
		}
		if got := n.working * working.trains; got > trainsFlyingMax-trainsFlyingMax/quietPart {
			t.Errorf("%+v: working peers may have %d trains under way, of %d", n, got, trainsFlyingMax)
		}
		alone := &Agent{mates: make(map[uint32]*peer)}
		for i := range n.working {
			alone.mates[uint32(i)] = a.mates[uint32(i)]
		}
		if want, _ := alone.shares(now); working != want || working.trains < 1 || quiet.trains < 1 {
			t.Errorf("%+v: a working peer has the share %+v, without the silent ones %+v", n, working, want)
		}
		if later, _ := a.shares(now.Add(workTime)); n.working > 1 && later.trains == working.trains {
			t.Errorf("%+v: peers that have become silent count as working ones", n)
		}
	}
}
