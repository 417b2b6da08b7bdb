package fabrictest

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// interrupter returns a function that sends a signal to one thread of this process.
func interrupter(tb testing.TB) (interrupt func(tid int), stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR2)
	pid := os.Getpid()
	interrupt = func(tid int) {
		if err := unix.Tgkill(pid, tid, unix.SIGUSR2); err != nil && err != unix.ESRCH {
			tb.Errorf("tgkill: %v", err)
		}
	}
	return interrupt, func() { signal.Stop(caught) }
}

func lockThread() (tid int, unlock func()) {
	runtime.LockOSThread()
	return unix.Gettid(), runtime.UnlockOSThread
}
