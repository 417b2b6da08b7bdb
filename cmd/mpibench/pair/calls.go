package pair

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
)

// The constants are the methods of the server.
const (
	methodEcho   uint16 = 1 // answers with the request
	methodAccept uint16 = 2 // answers with one byte
)

// callNode is either end of the calls.
type callNode struct {
	node *call.Node
	run  *runner.Runner
	peer *btl.Endpoint // the client's server
}

func openCalls(o Options) (*callNode, string, error) {
	m, name, err := open(o)
	if err != nil {
		return nil, "", err
	}
	node, err := call.New(m, call.Config{})
	if err != nil {
		return nil, "", err
	}
	node.HandleInline(methodEcho, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
		return append(a, q...), nil
	})
	node.HandleInline(methodAccept, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) {
		return append(a, 1), nil
	})
	return &callNode{node: node, run: node.Start(runner.Config{Wait: o.Wait}, nil)}, name, nil
}

func (c *callNode) close(ctx context.Context) error {
	return closeAll(ctx, c.node.Close, c.run.Close)
}

func serveCalls(ctx context.Context, o Options, to io.Writer) error {
	c, name, err := openCalls(o)
	if err != nil {
		return err
	}
	return errors.Join(serving(ctx, to, name), c.close(ctx))
}

func dialCalls(ctx context.Context, o Options, name string) (client, error) {
	c, _, err := openCalls(o)
	if err != nil {
		return nil, err
	}
	c.peer, err = connect(ctx, c.run, name)
	return c, err
}

func (c *callNode) measure(ctx context.Context, o Options, test string, size int) (
	median, p99 float64, err error,
) {
	request := make([]byte, size)
	switch test {
	case latency:
		trips, err := timed(o.Duration, func() error {
			_, err := c.node.Call(ctx, c.peer, methodEcho, request)
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		median, p99 = halves(trips)
		return median, p99, nil
	case bw:
		rate, err := c.parallel(ctx, o, request)
		return rate, rate, err
	}
	return 0, 0, errTest
}

// The method parallel returns the rate of requests of Window goroutines, in MB/s.
func (c *callNode) parallel(ctx context.Context, o Options, request []byte) (float64, error) {
	var (
		calls   atomic.Int64
		callers sync.WaitGroup
		errs    = make([]error, o.Window)
		warm    = time.Now().Add(o.Duration / 5)
		until   = warm.Add(o.Duration)
	)
	for i := range o.Window {
		callers.Go(func() {
			for now := time.Now(); now.Before(until) && errs[i] == nil; {
				_, errs[i] = c.node.Call(ctx, c.peer, methodAccept, request)
				if now = time.Now(); now.After(warm) {
					calls.Add(1)
				}
			}
		})
	}
	callers.Wait()
	took := time.Since(warm).Seconds()
	return float64(calls.Load()) * float64(len(request)) / 1e6 / took, errors.Join(errs...)
}
