package main

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"

	"gobtl/internal/usage"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake on the command line that only the job shows.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitPanic carries the exit status out of kong's help flag.
type exitPanic int

// run executes a command line and returns the exit status.
func run(args []string, stdout, stderr io.Writer) (status int) {
	env := &environment{stdout: stdout, stderr: stderr}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
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
		env.notef("%s (see mpibench --help)", usage.Text(err))
		return exitUsage
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	if err = kctx.Run(); err == nil {
		return exitOK
	}
	env.notef("%v", err)
	var misuse *usageError
	if errors.As(err, &misuse) {
		return exitUsage
	}
	return exitFailure
}
