package usage

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends returns the signals that request an orderly end of a program, which are SIGTERM, SIGINT and
// SIGHUP. Ends omits SIGINT or SIGHUP if the signal was ignored when the program was started.
func Ends() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	return ends
}
