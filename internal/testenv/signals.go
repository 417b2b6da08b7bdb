package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// HearSignals is for the TestMain of tests that start programs of this module and send them SIGINT
// or SIGHUP. The programs of this module ignore SIGINT or SIGHUP if the signal was ignored when the
// program was started, as nohup and background jobs of a shell do. If a test itself runs under
// nohup or in the background, the programs that the test starts inherit the ignored signals. After
// a call of HearSignals, programs that the test starts ignore neither SIGINT nor SIGHUP.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
