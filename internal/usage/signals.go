package usage

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends returns the signals that request an orderly end of a program, which are SIGTERM, SIGINT and
// SIGHUP. If SIGINT or SIGHUP was ignored when the program was started, Ends omits this signal.
func Ends() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	return ends
}
