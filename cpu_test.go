package gobtl

import (
	"testing"
	"time"
)

// TestLostCPU: a delay is a loss of the CPU if the kernel has taken a CPU from this process, which
// has used little of the time. The delay of a handler that blocks, computes, or takes long is not.
func TestLostCPU(t *testing.T) {
	const every = 100 * time.Millisecond
	start := time.Now()
	at := func(ms int, cpu time.Duration, taken int64) cpuUse {
		return cpuUse{start.Add(time.Duration(ms) * time.Millisecond), cpu * time.Millisecond, taken}
	}
	for _, tc := range []struct {
		name string
		uses []cpuUse
		took time.Duration // until now
		now  cpuUse
		lost bool
	}{
		{"other processes", []cpuUse{at(0, 0, 5)}, 150, at(180, 20, 6), true},
		{"blocks", []cpuUse{at(0, 0, 5)}, 150, at(180, 20, 5), false},
		{"computes", []cpuUse{at(0, 0, 5)}, 150, at(180, 100, 9), false},
		{"blocks for long", []cpuUse{at(0, 0, 5)}, 1001, at(1100, 20, 9), false},
		{"taken before", []cpuUse{at(0, 0, 1), at(20, 0, 5)}, 150, at(180, 20, 5), false},
		{"taken meanwhile", []cpuUse{at(0, 0, 5), at(100, 0, 6)}, 150, at(180, 20, 6), true},
		{"nothing known of the beginning", []cpuUse{at(100, 0, 5)}, 150, at(180, 20, 6), false},
		{"nothing known", nil, 150, at(180, 20, 6), false},
	} {
		var u cpuUses
		for _, use := range tc.uses {
			u.add(use)
		}
		begin := tc.now.at.Add(-tc.took * time.Millisecond)
		if got := u.lostCPU(begin, tc.now, every); got != tc.lost {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestUsesKept: a link keeps as many uses as the longest delay that counts needs, and no more.
func TestUsesKept(t *testing.T) {
	const every = 100 * time.Millisecond
	var u cpuUses
	now := cpuUse{at: time.Now()}
	for range 3 * usesKept {
		now.at = now.at.Add(every)
		u.add(now)
	}
	now.taken++
	if !u.lostCPU(now.at.Add(-lostMost*every), now, every) {
		t.Error("the use before the longest delay is forgotten")
	}
	if len(u.list) != usesKept || cap(u.list) > 2*usesKept {
		t.Errorf("%d uses of %d are kept", len(u.list), cap(u.list))
	}
}
