package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// HearSignals is for the TestMain of tests that send SIGINT or SIGHUP to programs that they start.
// The programs of this module heed no SIGINT or SIGHUP that was ignored when they started, and a
// test inherits such signals from nohup, and from a shell that runs it in the background. After
// HearSignals the programs that the test starts have the default handling of both signals.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
