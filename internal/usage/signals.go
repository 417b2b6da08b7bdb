package usage

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends are the signals that request an orderly end of a program. The signals are SIGTERM, SIGINT
// and SIGHUP. If the program was started with SIGINT or SIGHUP ignored, that signal stays ignored.
// Scripts start background jobs with SIGINT ignored, and nohup starts programs with SIGHUP ignored.
func Ends() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	return ends
}
