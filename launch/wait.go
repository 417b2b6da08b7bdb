package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
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

// dialUntil connects to rank 0. While rank 0 is not listening, dialUntil tries again.
func dialUntil(ctx context.Context, at meeting, limit time.Duration) (conn net.Conn, err error) {
	err = again(ctx, limit, func(ctx context.Context) (bool, error) {
		var missing error
		conn, missing = new(net.Dialer).DialContext(ctx, at.network, at.address)
		if missing != nil {
			return false, fmt.Errorf("%w: rank 0 does not listen: %w", ErrRendezvous, missing)
		}
		return true, nil
	})
	return conn, err
}

// pause sleeps before a failed attempt is repeated.
func pause() { time.Sleep(10 * time.Millisecond) }
