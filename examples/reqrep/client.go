package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
)

// hopeless is how many zero bits no search finds.
const hopeless = math.MaxUint8

// client asks a server, with a text of its own.
type client struct {
	text   []byte
	node   *call.Node
	server *btl.Endpoint
}

// run has numbers found and checks them, and then loses patience.
func (c *client) run(ctx context.Context, server []byte, searches, bits int,
	patience time.Duration,
) (err error) {
	node, runner, _, err := start(func(*call.Node) {})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, node.Close(ctx), runner.Close(ctx))
	}()
	c.node = node
	if c.server, err = runner.Connect(ctx, server); err != nil {
		return err
	}
	for i := range searches {
		want := i % (bits + 1)
		number, err := c.search(ctx, want)
		if err != nil {
			return err
		}
		if got := zeroBits(c.text, number); got < want {
			return fmt.Errorf("%d gives %d zero bits, not %d", number, got, want)
		}
	}
	return errors.Join(c.refused(ctx), c.late(ctx, patience), c.takenBack(ctx))
}

// search asks for a number.
func (c *client) search(ctx context.Context, bits int) (uint64, error) {
	answer, err := c.node.Call(ctx, c.server, methodSearch, append([]byte{byte(bits)}, c.text...))
	if err != nil {
		return 0, err
	}
	if len(answer) != 8 {
		return 0, fmt.Errorf("an answer of %d bytes", len(answer))
	}
	return binary.LittleEndian.Uint64(answer), nil
}

// refused sends a request that the handler does not understand: its error is the answer.
func (c *client) refused(ctx context.Context) error {
	_, err := c.node.Call(ctx, c.server, methodSearch, nil)
	var remote call.RemoteError
	if !errors.As(err, &remote) {
		return fmt.Errorf("an empty request: %w, want the handler's error", err)
	}
	return nil
}

// late has a search with a deadline. The server knows it, and ends by itself.
func (c *client) late(ctx context.Context, patience time.Duration) error {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := c.search(short, hopeless); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a hopeless search: %w, want the deadline's error", err)
	}
	return c.awaitBusy(ctx, 0)
}

// takenBack has a search without a deadline, and takes it back when the server is at it.
func (c *client) takenBack(ctx context.Context) error {
	whim, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := c.search(whim, hopeless)
		ended <- err
	}()
	err := c.awaitBusy(ctx, 1)
	cancel()
	if e := <-ended; !errors.Is(e, context.Canceled) {
		return fmt.Errorf("a search that was taken back: %w", e)
	}
	return errors.Join(err, c.awaitBusy(ctx, 0))
}

// awaitBusy waits until so many searches of this client are under way.
func (c *client) awaitBusy(ctx context.Context, want uint64) error {
	for {
		answer, err := c.node.Call(ctx, c.server, methodBusy, nil)
		if err != nil {
			return fmt.Errorf("waiting for %d searches: %w", want, err)
		}
		if len(answer) == 8 && binary.LittleEndian.Uint64(answer) == want {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
