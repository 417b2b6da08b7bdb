package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"
)

// all are the operating systems and architectures that the command checks, as GOOS/GOARCH.
var all = []string{
	"linux/amd64", "linux/arm64", "linux/386",
	"darwin/amd64", "darwin/arm64",
	"freebsd/amd64", "freebsd/arm64", "freebsd/386",
	"windows/amd64", "windows/arm64", "windows/386",
}

func main() {
	debug.SetGCPercent(400) // the heap stays below 2 GB
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, ".", all, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run checks the module in dir, and returns the exit status: 1 if it has an error.
func run(ctx context.Context, dir string, systems []string, out, errOut io.Writer) int {
	begin := time.Now()
	found, err := check(ctx, dir, systems)
	if err != nil {
		fmt.Fprintln(errOut, "systems:", err)
		return 1
	}
	lines := found.lines()
	for _, line := range lines {
		fmt.Fprintln(errOut, line)
	}
	fmt.Fprintf(out, "systems: %d systems, %d packages and test packages, %d errors, %v\n",
		len(systems), found.packages, len(lines), time.Since(begin).Round(time.Second))
	if len(lines) > 0 {
		return 1
	}
	return 0
}
