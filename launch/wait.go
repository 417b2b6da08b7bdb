package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// soon returns the current time plus limit, as a deadline for a connection.
func soon(limit time.Duration) time.Time { return time.Now().Add(limit) }

// passed reports whether a time is in the past.
func passed(at time.Time) bool { return !time.Now().Before(at) }

// again calls try until try returns true, ctx ends, or limit has passed. If limit has passed, the
// error of again wraps ErrTimeout and the latest error of try.
func again(ctx context.Context, limit time.Duration,
	try func(context.Context) (bool, error),
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrTimeout)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		done, err := try(ctx)
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// awaitOwn waits until a directory exists. If other users have access to the directory, awaitOwn
// returns an error.
func awaitOwn(ctx context.Context, path string, limit time.Duration) error {
	return again(ctx, limit, func(context.Context) (bool, error) {
		err := checkOwn(path)
		return !errors.Is(err, fs.ErrNotExist), err
	})
}

// pause sleeps before a failed attempt is repeated.
func pause() { time.Sleep(10 * time.Millisecond) }
