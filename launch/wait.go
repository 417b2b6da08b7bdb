package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// The function "soon" returns the current time plus the duration "limit", as a deadline for a
// connection.
func soon(limit time.Duration) time.Time { return time.Now().Add(limit) }

// The function "passed" reports whether a time is in the past.
func passed(at time.Time) bool { return !time.Now().Before(at) }

// The function "again" calls the function "try" repeatedly until the function "try" returns true,
// ctx ends, or the duration "limit" has passed. After the duration "limit", the function "again"
// returns an error that wraps both ErrTimeout and the latest error of the function "try".
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

// awaitOwn waits until a directory exists to which only this user has access. If the directory
// exists but a different user has access to it, awaitOwn returns an error.
func awaitOwn(ctx context.Context, path string, limit time.Duration) error {
	return again(ctx, limit, func(context.Context) (bool, error) {
		err := checkOwn(path)
		return !errors.Is(err, fs.ErrNotExist), err
	})
}

// The function "pause" sleeps for the time between a failed attempt and the next attempt.
func pause() { time.Sleep(10 * time.Millisecond) }
