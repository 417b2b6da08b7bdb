package main

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"time"

	"gobtl/internal/usage"
	"gobtl/launch"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake on the command line that only the job, or the machine, shows.
type usageError struct {
	err  error
	told bool // already, by this rank or another one
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitPanic carries the exit status out of kong's help flag.
type exitPanic int

// run executes a command line and returns the exit status.
func run(args []string, stdout, stderr io.Writer) (status int) {
	env := &environment{stdout: stdout, stderr: stderr}
	ctx, stop := signal.NotifyContext(context.Background(), usage.Ends()...)
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
		env.refuse(ctx, usage.Text(err)+" (see mpibench --help)")
		return exitUsage
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	if err = kctx.Run(); err == nil {
		return exitOK
	}
	var misuse *usageError
	isMisuse := errors.As(err, &misuse)
	if !isMisuse || !misuse.told {
		env.notef("%v", err)
	}
	if isMisuse {
		return exitUsage
	}
	return exitFailure
}

// refuseLimit is how long a rank waits for the others before it tells of a mistake by itself.
const refuseLimit = 5 * time.Second

// refuse tells of a mistake on the command line: once for the job, by rank 0, whose line is out
// before the first rank ends, as a launcher may end the others then. Who does not meet the others,
// as their command lines are right, tells of its own.
func (e *environment) refuse(ctx context.Context, text string) {
	ctx, cancel := context.WithTimeout(ctx, refuseLimit)
	defer cancel()
	job, err := launch.Join(ctx, launch.Config{})
	if err != nil {
		e.notef("%s", text)
		return
	}
	if job.Rank() == 0 {
		e.notef("%s", text)
	}
	_, err = job.Exchange(ctx, "refused", nil)
	if err != nil && job.Rank() != 0 {
		e.notef("rank %d: %s", job.Rank(), text)
	}
	if err == nil {
		// The first that ends may have the launcher end all: none does before every one knows.
		_, _ = job.Exchange(ctx, "known", nil)
	}
	_ = job.Finalize(ctx) // The launcher learns by the status how it went.
}
