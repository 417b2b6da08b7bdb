package pair

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/cmd/mpibench/bench"
	"gobtl/fabric"
	"gobtl/internal/report"
)

// Options select the measurement. Both processes must have the same Options.
type Options struct {
	Layer    string         // one of Layers
	Wait     runner.Waiting // how both processes wait
	MTUBytes int            // size of the largest datagram; 0 is the default of the provider udp
	Tests    []string       // latency, bw or datagrams
	Sizes    []int          // bytes of a message
	Duration time.Duration  // time for each figure
	Window   int            // messages in flight in bw
}

// Layers returns the names of the layers.
func Layers() []string { return []string{"call", "conn", "stream"} }

// The constants are the tests.
const (
	latency   = "latency"
	bw        = "bw"
	datagrams = "datagrams"
)

// errTest means that a layer has no such test.
var errTest = errors.New("the layer has no such test")

// Serve opens the server of a layer, writes the server's name as a line, and serves until ctx is
// done.
func Serve(ctx context.Context, o Options, name io.Writer) error {
	switch o.Layer {
	case "call":
		return serveCalls(ctx, o, name)
	case "conn":
		return serveConns(ctx, o, name)
	}
	return serveStreams(ctx, o, name)
}

// client measures a layer from one of the two processes.
type client interface {
	// measure returns the median and the 99th percentile of a test, in the unit of the test.
	measure(ctx context.Context, o Options, test string, size int) (median, p99 float64, err error)
	close(ctx context.Context) error
}

// Measure measures against the server with the given name, and calls show for each result.
func Measure(ctx context.Context, o Options, name string, show func(bench.Result) error) (
	err error,
) {
	var c client
	switch o.Layer {
	case "call":
		c, err = dialCalls(ctx, o, name)
	case "conn":
		c, err = dialConns(ctx, o, name)
	default:
		c, err = dialStreams(o, name)
	}
	if err != nil {
		return err
	}
	for _, test := range o.Tests {
		for _, size := range o.Sizes {
			median, p99, err := c.measure(ctx, o, test, size)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", test, size, errors.Join(err, c.close(ctx)))
			}
			err = show(bench.Result{
				Schema: bench.Schema, Test: test, Size: size, Ranks: 2, Unit: units[test],
				Median: report.Significant(median), P99: report.Significant(p99),
			})
			if err != nil {
				return err
			}
		}
	}
	return c.close(ctx)
}

var units = map[string]string{latency: "us", bw: "MB/s", datagrams: "messages/s"}

// timed calls do until the duration is over, and returns the durations of the calls in order of
// their length. The calls of the first fifth of the duration do not count.
func timed(duration time.Duration, do func() error) (took []time.Duration, err error) {
	warm := time.Now().Add(duration / 5)
	until := warm.Add(duration)
	for begin := time.Now(); begin.Before(until) || len(took) == 0; {
		if err := do(); err != nil {
			return nil, err
		}
		now := time.Now()
		if begin.After(warm) {
			took = append(took, now.Sub(begin))
		}
		begin = now
	}
	slices.Sort(took)
	return took, nil
}

// halves returns the median and the 99th percentile of half round trips, in us.
func halves(trips []time.Duration) (median, p99 float64) {
	at := func(share int) float64 { return trips[(len(trips)-1)*share/100].Seconds() * 1e6 / 2 }
	return at(50), at(99)
}

// rates returns the median and the first percentile of the rates of windows, in MB/s.
func rates(windows []time.Duration, bytes int) (median, p99 float64) {
	at := func(share int) float64 {
		return float64(bytes) / 1e6 / windows[(len(windows)-1)*share/100].Seconds()
	}
	return at(50), at(99)
}

// network returns the loopback network of the provider udp.
func network() (fabric.Info, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return fabric.Info{}, err
	}
	return infos[0], nil
}

// open opens a module, whose name is text.
func open(o Options) (m *btl.Module, name string, err error) {
	info, err := network()
	if err != nil {
		return nil, "", err
	}
	cfg := btl.Config{MTUBytes: o.MTUBytes}
	buffers, err := cfg.DomainConfig(info)
	if err != nil {
		return nil, "", err
	}
	domain, err := fabric.Open(info, buffers)
	if err != nil {
		return nil, "", err
	}
	if m, err = btl.Open(domain, cfg); err != nil {
		return nil, "", err
	}
	return m, hex.EncodeToString(m.Name()), nil
}

// connect connects a client to the server with the given name.
func connect(ctx context.Context, run *runner.Runner, name string) (*btl.Endpoint, error) {
	raw, err := hex.DecodeString(name)
	if err != nil {
		return nil, err
	}
	return run.Connect(ctx, raw)
}

// serving writes the server's name, and waits until ctx is done.
func serving(ctx context.Context, to io.Writer, name string) error {
	if _, err := fmt.Fprintln(to, name); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// closeLimit bounds the time for which an end waits for its peer.
const closeLimit = 5 * time.Second

// closeAll closes the layers of an end in order, although ctx may be done.
func closeAll(ctx context.Context, layers ...func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	for _, c := range layers {
		err = errors.Join(err, c(ctx))
	}
	return err
}
