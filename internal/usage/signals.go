package usage

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends are the signals that request an orderly end of a program. The signals of Ends are SIGTERM,
// SIGINT and SIGHUP. If the program was started with SIGINT or SIGHUP ignored, Ends leaves out
// the ignored signal.
func Ends() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	return ends
}
