//go:build !linux

package fabrictest

import "testing"

func interrupter(tb testing.TB) (interrupt func(tid int), stop func()) {
	tb.Skip("signals to single threads are sent on Linux only")
	return func(int) {}, func() {}
}

func lockThread() (tid int, unlock func()) { return 0, func() {} }
