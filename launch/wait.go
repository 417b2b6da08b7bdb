package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"
)

// soon returns the instant that is limit from now, as a deadline for a connection.
func soon(limit time.Duration) time.Time { return time.Now().Add(limit) }

// passed reports whether an instant is in the past.
func passed(at time.Time) bool { return !time.Now().Before(at) }

// again calls try until try reports success, ctx ends, or limit has passed. In the last case why
// has the latest reason for failure.
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

// awaitOwn waits until a directory exists. Only this user may have access to it.
func awaitOwn(ctx context.Context, path string, limit time.Duration) error {
	return again(ctx, limit, func(context.Context) (bool, error) {
		err := checkOwn(path)
		return !errors.Is(err, fs.ErrNotExist), err
	})
}

// dialUntil connects to an address at which the server may not listen yet.
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

// pause is the delay before a failed attempt is repeated.
func pause() { time.Sleep(10 * time.Millisecond) }
