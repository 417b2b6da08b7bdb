//go:build linux

package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// prefix begins the names of all namespaces of this package, followed by the process id and the
// number of the namespace.
const prefix = "gobtl-"

var made atomic.Int64

// TB is the part of testing.TB that a lab uses, so that a program can also make a lab. Skip, Fatal
// and Fatalf do not return.
type TB interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	Skip(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Lab is a set of hosts that are removed at the end of the test.
type Lab struct {
	tb     TB
	cables int
}

// New returns a lab without hosts. Without the right to make namespaces, or without the programs,
// the test is skipped, or fails if CI is set.
func New(tb TB) *Lab {
	tb.Helper()
	l := &Lab{tb: tb}
	if os.Geteuid() != 0 {
		l.lacks("network namespaces are for root")
	}
	l.Need("ip", "iproute2")
	sweep()
	return l
}

// lacks skips the test, or fails it if CI is set.
func (l *Lab) lacks(what string) {
	l.tb.Helper()
	if os.Getenv("CI") != "" {
		l.tb.Fatal(what)
	}
	l.tb.Skip(what)
}

// Need skips the test, or fails it if CI is set, if a program is not installed.
func (l *Lab) Need(program, debianPackage string) {
	l.tb.Helper()
	if _, err := exec.LookPath(program); err != nil {
		l.lacks(fmt.Sprintf("needs %s (Debian: %s)", program, debianPackage))
	}
}

// sweep removes the namespaces of processes that have ended.
func sweep() {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ") // "name (id: 3)"
		rest, ours := strings.CutPrefix(name, prefix)
		number, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if !ours || err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = exec.Command("ip", "netns", "del", name).Run() // another process may have been faster
	}
}

// Host is a network namespace with its own interfaces, addresses, routes and filters.
type Host struct {
	Name  string // as it was asked for
	NS    string // the namespace, for "ip netns exec"
	lab   *Lab
	ports int
}

// Host makes a host that has only its loopback interface.
func (l *Lab) Host(name string) *Host {
	l.tb.Helper()
	h := &Host{
		Name: name, NS: fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), made.Add(1)), lab: l,
	}
	if out, err := exec.Command("ip", "netns", "add", h.NS).CombinedOutput(); err != nil {
		l.lacks(fmt.Sprintf("cannot make a network namespace: %v: %s", err, out))
	}
	l.tb.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", h.NS).CombinedOutput(); err != nil {
			l.tb.Errorf("removing host %s: %v: %s", name, err, out)
		}
	})
	// Without duplicate address detection, addresses can be used at once.
	h.Sysctl("net/ipv6/conf/all/accept_dad", "0")
	h.Sysctl("net/ipv6/conf/default/accept_dad", "0")
	h.IP("link set lo up")
	return h
}

// Command prepares a program that is to run on the host.
func (h *Host) Command(program string, args ...string) *exec.Cmd {
	return exec.CommandContext(h.lab.tb.Context(), "ip",
		append([]string{"netns", "exec", h.NS, program}, args...)...)
}

// Test prepares a run of one test of this test binary on the host, with further environment
// variables ("NAME=value").
func (h *Host) Test(name string, env ...string) *exec.Cmd {
	h.lab.tb.Helper()
	self, err := os.Executable()
	if err != nil {
		h.lab.tb.Fatal(err)
	}
	cmd := h.Command(self, "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// Run runs a program on the host, and fails the test if the program fails.
func (h *Host) Run(program string, args ...string) string {
	h.lab.tb.Helper()
	out, err := h.Command(program, args...).CombinedOutput()
	if err != nil {
		h.lab.tb.Fatalf("host %s: %s %s: %v\n%s", h.Name, program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// IP runs commands of ip such as "route add default via 10.0.0.1", one for each argument.
func (h *Host) IP(commands ...string) {
	h.lab.tb.Helper()
	cmd := exec.CommandContext(h.lab.tb.Context(), "ip", "-n", h.NS, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.lab.tb.Fatalf("host %s: ip %q: %v\n%s", h.Name, commands, err, out)
	}
}

// Sysctl sets a network parameter of the host, such as "net/ipv4/ip_forward".
func (h *Host) Sysctl(name, value string) {
	h.lab.tb.Helper()
	h.Do(func() {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			h.lab.tb.Fatalf("host %s: %v", h.Name, err)
		}
	})
}

// Do calls f on this goroutine, with its thread in the host's namespace. Sockets that f opens stay
// in the namespace. Goroutines that f starts do not run in the namespace.
func (h *Host) Do(f func()) {
	h.lab.tb.Helper()
	runtime.LockOSThread() // a thread that does not find back is not unlocked, so it ends
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		h.lab.tb.Fatal(err)
	}
	defer home.Close()
	away, err := os.Open("/run/netns/" + h.NS)
	if err != nil {
		h.lab.tb.Fatal(err)
	}
	defer away.Close()
	if err := unix.Setns(int(away.Fd()), unix.CLONE_NEWNET); err != nil {
		h.lab.tb.Fatalf("host %s: setns: %v", h.Name, err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			h.lab.tb.Errorf("leaving host %s: setns: %v", h.Name, err)
			return
		}
		runtime.UnlockOSThread()
	}()
	f()
}
