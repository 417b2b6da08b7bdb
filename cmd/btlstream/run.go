package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gobtl/internal/bounded"
	"gobtl/internal/plain"
	"gobtl/internal/usage"
)

// The constants below are exit statuses. After a signal the exit status is 128 plus the number of
// the signal, as in shells.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// The constants below are the levels of the option -l.
const (
	logError   = 3
	logWarning = 4
	logNotice  = 5
	logInfo    = 6
	logDebug   = 7
)

// environment holds the parts of the process that the program may use.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *bounded.Log // writes to stderr
	level          int
	// ctx is cancelled with a *signalError as its cause when a signal asks the program to stop.
	ctx context.Context //nolint:containedctx // the lifetime of the command, not of a call
}

// logf writes one line to standard error, if the level is enabled. logf does not wait for standard
// error, so that the port's goroutine may call logf.
func (e *environment) logf(level int, format string, args ...any) {
	if level <= e.level {
		text := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "; ")
		e.log.Line(plain.Text(text))
	}
}

// signalError is the error of a program that a signal has asked to stop.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return "interrupted: " + e.sig.String() }

// exitPanic carries an exit status to run when an option such as --help ends the program.
type exitPanic int

// run executes a command line and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	env := &environment{
		stdin: stdin, stdout: stdout, stderr: stderr, level: logNotice,
		log: bounded.NewLog(stderr, "btlstream"),
	}
	defer env.log.Close()
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
	parser, err := newParser(&c, stdout, stderr, func(code int) { panic(exitPanic(code)) })
	if err != nil {
		env.logf(logError, "internal error: %v", err)
		return exitFailure
	}
	if _, err := parser.Parse(args); err != nil {
		env.logf(logError, "%s", usage.Misuse("btlstream", err))
		return exitUsage
	}
	env.level = c.Log
	ctx, stop := notifyContext()
	defer stop()
	env.ctx = ctx
	err = transfer(env, &c)
	var sig *signalError
	switch {
	case err == nil:
		return exitOK
	case errors.As(context.Cause(ctx), &sig):
		env.logf(logError, "%v", sig)
		return 128 + int(sig.sig)
	}
	env.logf(logError, "%s", errorText(err))
	return exitFailure
}

// errorText returns the text of the error that ends the program. If nobody listens at the peer's
// address, the text says only that.
func errorText(err error) string {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && dial.Addr != nil &&
		errors.Is(dial, syscall.ECONNREFUSED) {
		return fmt.Sprintf("nobody listens at %v", dial.Addr)
	}
	return err.Error()
}

// notifyContext returns a context that is cancelled by the first signal that ends the program, such
// as SIGINT. A second signal ends the process at once, in case the orderly end hangs.
func notifyContext() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, usage.Ends()...)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if sig, ok := s.(syscall.Signal); ok {
				cancel(&signalError{sig})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
