package usage

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends are the signals that ask a program to end in order: SIGINT and SIGTERM. A SIGINT that the
// program was started to ignore, as scripts start their background jobs, stays ignored.
func Ends() []os.Signal {
	if signal.Ignored(syscall.SIGINT) {
		return []os.Signal{syscall.SIGTERM}
	}
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM}
}
