//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"gobtl/internal/bounded"
	"gobtl/internal/plain"
	"gobtl/internal/usage"
)

// environment holds the parts of the process that a command may use.
type environment struct {
	stdout, stderr io.Writer
	log            *bounded.Log // writes to stderr
	// ctx is cancelled with a *signalError as its cause when a signal asks the program to stop.
	ctx context.Context //nolint:containedctx // the lifetime of the command, not of a call
}

// notef writes one line to standard error. notef does not wait for standard error, so that progress
// loops may call notef.
func (e *environment) notef(format string, args ...any) {
	e.log.Line(plain.Text(fmt.Sprintf(format, args...)))
}

// The constants below are exit statuses. A signal that ends the agent or the manager counts as
// success.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// exitPanic carries the exit status of the option --help to run.
type exitPanic int

// run executes a command line and returns the exit status.
func run(args []string, stdout, stderr io.Writer) (status int) {
	ctx, stop := signal.NotifyContext(context.Background(), usage.Ends()...)
	defer stop()
	env := &environment{
		stdout: stdout, stderr: stderr, log: bounded.NewLog(stderr, "btlvnic"), ctx: ctx,
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
	parser, err := newParser(&c, env, func(code int) { panic(exitPanic(code)) })
	if err != nil {
		env.notef("internal error: %v", err)
		return exitFailure
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		env.notef("%s", usage.Misuse("btlvnic", err))
		return exitUsage
	}
	if err := kctx.Run(); err != nil {
		if !errors.Is(err, errTold) {
			env.notef("%v", err)
		}
		return exitFailure
	}
	return exitOK
}

// errTold marks a failure that was already reported to the user.
var errTold = errors.New("told")

// isPipe reports whether an error means that nobody reads standard output any more.
func isPipe(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) }
