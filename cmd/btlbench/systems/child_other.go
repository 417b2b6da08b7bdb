//go:build !linux

package systems

import (
	"os"
	"syscall"
	"time"
)

// On systems other than Linux, nothing is pinned, and processes that a tool leaves behind are not
// ended.

func pinThread(int) error { return nil }

func childAttr() *syscall.SysProcAttr { return nil }

func signalGroup(leader *os.Process, _ syscall.Signal) error { return leader.Kill() }

func endSession(int) {}

// listening waits for a fixed time, because it cannot check whether a server listens.
func listening(int) bool {
	time.Sleep(300 * time.Millisecond)
	return true
}
