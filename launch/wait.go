package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"
)

// soon is the instant that much from now, as a deadline for a connection.
func soon(limit time.Duration) time.Time { return time.Now().Add(limit) }

// passed says whether an instant has.
func passed(at time.Time) bool { return !time.Now().Before(at) }

// again calls try until it says that it is done, or ctx ends, or limit is over: then why says what
// was missing last.
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

// awaitOwn waits until a directory is there, which must be this user's alone.
func awaitOwn(ctx context.Context, path string, limit time.Duration) error {
	return again(ctx, limit, func(context.Context) (bool, error) {
		err := checkOwn(path)
		return !errors.Is(err, fs.ErrNotExist), err
	})
}

// dialUntil connects to who may not listen yet.
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

// pause is for how long nothing is tried again that has just failed.
func pause() { time.Sleep(10 * time.Millisecond) }
