package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"gobtl/internal/plain"
	"gobtl/internal/usage"
)

// environment holds the parts of the process that a command may use.
type environment struct {
	stdout, stderr io.Writer
	// ctx ends with a *signalError as its cause when the user asks to stop.
	ctx context.Context //nolint:containedctx // It is the lifetime of the command, not of a call.
}

// notef writes one line to standard error.
func (e *environment) notef(format string, args ...any) {
	fmt.Fprintln(e.stderr, "btlbench: "+plain.Text(fmt.Sprintf(format, args...)))
}

// The constants are exit statuses. After a signal, the exit status is 128 plus the number of the
// signal, as in shells.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is an error of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// signalError means that a signal asked the command to stop.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string {
	if e.sig == syscall.SIGINT {
		return "interrupted"
	}
	return "interrupted: " + e.sig.String()
}

// toldError is an error that another process reports.
type toldError struct{ err error }

func (e *toldError) Error() string { return e.err.Error() }
func (e *toldError) Unwrap() error { return e.err }

// exitPanic carries the exit status of kong's flag --help.
type exitPanic int

// run executes a command line and returns the exit status.
func run(args []string, stdout, stderr io.Writer) (status int) {
	ctx, stop := notifyContext()
	defer stop()
	env := &environment{stdout: stdout, stderr: stderr, ctx: ctx}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case exitPanic:
			status = int(e)
		default:
			panic(e)
		}
	}()
	var c cli
	parser, err := newParser(&c, env, func(code int) { panic(exitPanic(code)) })
	if err != nil {
		env.notef("internal error: %v", err)
		return exitFailure
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		env.notef("%s", usage.Misuse("btlbench", err))
		return exitUsage
	}
	return exitStatus(env, kctx.Run())
}

// exitStatus reports err in one line, and returns the exit status for it.
func exitStatus(env *environment, err error) int {
	if err == nil {
		return exitOK
	}
	var told *toldError
	if !errors.As(err, &told) {
		env.notef("%v", err)
	}
	var misuse *usageError
	var sig *signalError
	switch {
	case errors.As(err, &misuse):
		return exitUsage
	case errors.As(err, &sig):
		return 128 + int(sig.sig)
	}
	return exitFailure
}

// notifyContext returns a context that ends at the first of the signals of usage.Ends. A second
// signal has its default effect, in case the orderly end hangs.
func notifyContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, usage.Ends()...)
	go func() {
		if sig, ok := (<-signals).(syscall.Signal); ok {
			signal.Stop(signals)
			cancel(&signalError{sig})
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

// isInterrupt reports whether an error is a user's request to stop.
func isInterrupt(err error) bool {
	var sig *signalError
	return errors.As(err, &sig)
}
