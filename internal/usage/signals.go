package usage

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends are the signals that request an orderly end of a program. The signals are SIGTERM, SIGINT,
// and the SIGHUP of a closed terminal. If the program was started with SIGINT or SIGHUP ignored,
// the signal stays ignored. Scripts start their background jobs in this way, and nohup starts all
// programs in this way.
func Ends() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	return ends
}
