package usage

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends are the signals that ask a program to end in order: SIGTERM, SIGINT, and the SIGHUP of a
// terminal that was closed. A SIGINT or a SIGHUP that the program was started to ignore stays
// ignored: scripts start their background jobs so, and nohup all that it starts.
func Ends() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	return ends
}
