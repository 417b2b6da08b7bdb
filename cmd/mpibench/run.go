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

// The constants are exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is an error in the command line that depends on the job or the machine.
type usageError struct {
	err  error
	told bool // already reported, by this or another rank
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitPanic carries the exit status of the option --help to run.
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
		env.refuse(ctx, usage.Misuse("mpibench", err))
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

// refuseLimit is the time for which a rank waits for the other ranks before it reports an error in
// its command line.
const refuseLimit = 5 * time.Second

// refuse reports an error in the command line. Rank 0 reports the error for the whole job, and the
// other ranks wait, because a launcher may end all ranks when the first rank ends. If the command
// lines of other ranks are valid, each rank with an error reports its own.
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
		// No rank ends before all ranks know of the error, because the launcher may end all ranks
		// when the first rank ends.
		_, _ = job.Exchange(ctx, "known", nil)
	}
	_ = job.Finalize(ctx) // The launcher learns by the status how it went.
}
