package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// HearSignals is for the TestMain of tests that start programs of this module and send SIGINT or
// SIGHUP to these programs. If the process that starts a program of this module ignores SIGINT or
// SIGHUP, as under nohup or in a shell's background job, the program ignores this signal as well.
// If a test runs under nohup or in the background, a program that the test starts would ignore the
// test's signals, unless the test has called HearSignals. A program that a test starts after a call
// of HearSignals does not ignore SIGINT and SIGHUP.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
