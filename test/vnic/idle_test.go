//go:build linux

package vnic

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var idleFor = flag.Duration("vnic.idle", time.Second, "time of waiting of TestIdle")

// TestIdle prints the CPU time of agents whose devices carry no frames. An agent that polls would
// use all the time of a CPU.
//
//	go test ./test/vnic -run '^TestIdle$' -v -vnic.idle 10s
func TestIdle(t *testing.T) {
	const share = 5
	l := newLab(t, 10400)
	l.up(blue("mtu = 1500", "a", "b", "c"))
	l.ping("a", "10.88.0.2")
	before := map[string]time.Duration{}
	for _, host := range names[:3] {
		before[host] = l.cpuTime(host)
	}
	time.Sleep(*idleFor)
	for _, host := range names[:3] {
		used := l.cpuTime(host) - before[host]
		t.Logf("agent %s: %v of CPU time in %v", host, used, *idleFor)
		if used > *idleFor/share {
			t.Errorf("agent %s: more than a %dth of the time", host, share)
		}
	}
	l.stopAll()
}

// cpuTime returns the CPU time that the threads of a process have used. Unlike /proc/PID/stat,
// the files schedstat count in nanoseconds.
func (l *lab) cpuTime(name string) (sum time.Duration) {
	l.t.Helper()
	pattern := filepath.Join("/proc", strconv.Itoa(l.procs[name].cmd.Process.Pid), "task/*/schedstat")
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		l.t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		ns, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			l.t.Fatalf("%s: %q", file, text)
		}
		sum += time.Duration(n)
	}
	return sum
}
