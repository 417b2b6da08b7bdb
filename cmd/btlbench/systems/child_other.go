//go:build !linux

package systems

import (
	"os"
	"syscall"
	"time"
)

// Without Linux's calls nothing is pinned, and what a tool leaves behind stays.

func pinThread(int) error { return nil }

func childAttr() *syscall.SysProcAttr { return nil }

func signalGroup(leader *os.Process, _ syscall.Signal) error { return leader.Kill() }

func endSession(int) {}

// listening waits as long as the servers take, as it cannot look.
func listening(int) bool {
	time.Sleep(300 * time.Millisecond)
	return true
}
