package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// HearSignals is for the TestMain of tests that send SIGINT or SIGHUP to programs that they start.
// A program of this module ignores SIGINT and SIGHUP if they were ignored when it was started, as
// with nohup or in the background of a shell. A test that is itself started with nohup or in the
// background would pass the ignored signals on to the programs that it starts. After HearSignals,
// the programs that the test starts have the default handling of both signals.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
