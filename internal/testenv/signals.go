package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// HearSignals is for the TestMain of tests that start programs of this module and send them SIGINT
// or SIGHUP. A program of this module ignores SIGINT or SIGHUP if the process that started it
// already ignored the signal, as with nohup or a shell's background job. If a test itself runs
// under nohup or in the background, the programs that the test starts inherit the ignored signals.
// Programs that the test starts after a call of HearSignals do not inherit an ignored SIGINT or
// SIGHUP.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
