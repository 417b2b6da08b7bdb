package pair

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"gobtl/btl/runner"
	"gobtl/cmd/mpibench/bench"
	_ "gobtl/fabric/udp" // what is measured
)

// measured serves and measures in one process.
func measured(t *testing.T, o Options) (results []bench.Result, err error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, in := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, o, in)
		in.Close()
	}()
	name, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, <-served)
	}
	err = Measure(ctx, o, name[:len(name)-1], func(r bench.Result) error {
		results = append(results, r)
		return nil
	})
	stop()
	if err := <-served; err != nil {
		t.Errorf("server: %v", err)
	}
	return results, err
}

// measuredOnce measures for 2 ms, or for as long as it takes to measure something: beside other
// programs, the two sides can be without a CPU for longer.
func measuredOnce(t *testing.T, o Options) (results []bench.Result, err error) {
	t.Helper()
	for o.Duration = 2 * time.Millisecond; ; o.Duration *= 8 {
		results, err = measured(t, o)
		nothing := func(r bench.Result) bool { return r.Median <= 0 }
		if err != nil || o.Duration > time.Second || !slices.ContainsFunc(results, nothing) {
			return results, err
		}
	}
}

// TestLayers measures each layer in each way to wait, with and without a small MTU.
func TestLayers(t *testing.T) {
	for _, tc := range []struct {
		layer, test, unit string
		sizes             []int
	}{
		{"call", latency, "us", []int{8, 100_000}},
		{"call", bw, "MB/s", []int{8, 5000}},
		{"conn", latency, "us", []int{8, 100_000}},
		{"conn", bw, "MB/s", []int{8, 5000}},
		{"stream", bw, "MB/s", []int{5000}},
		{"stream", datagrams, "messages/s", []int{1024}},
	} {
		for _, mtu := range []int{0, 1472} {
			for _, wait := range []runner.Waiting{
				runner.WaitAdaptive, runner.WaitEvent, runner.WaitBusy,
			} {
				o := Options{
					Layer: tc.layer, Wait: wait, MTUBytes: mtu, Tests: []string{tc.test}, Sizes: tc.sizes,
					Window: 8,
				}
				results, err := measuredOnce(t, o)
				if err != nil || len(results) != len(tc.sizes) {
					t.Fatalf("%+v: %d results, %v", o, len(results), err)
				}
				for i, r := range results {
					if r.Schema != bench.Schema || r.Test != tc.test || r.Size != tc.sizes[i] ||
						r.Ranks != 2 || r.Unit != tc.unit || r.Median <= 0 || r.P99 <= 0 {
						t.Errorf("%+v: %+v", o, r)
					}
				}
			}
		}
	}
}

// TestNoSuchTest checks that a layer reports a test that it does not have.
func TestNoSuchTest(t *testing.T) {
	for _, layer := range []string{"call", "conn"} {
		o := Options{
			Layer: layer, Tests: []string{datagrams}, Sizes: []int{8}, Duration: time.Millisecond,
			Window: 1,
		}
		if results, err := measured(t, o); err == nil || len(results) > 0 {
			t.Errorf("%s: %v, %v", layer, results, err)
		}
	}
	for _, o := range []Options{
		{Layer: "stream", Tests: []string{latency}, Sizes: []int{8}},
		{Layer: "stream", Tests: []string{bw}, Sizes: []int{8, 9}},
		{Layer: "stream", Tests: []string{bw, bw}, Sizes: []int{8}},
	} {
		if err := Serve(t.Context(), o, io.Discard); err == nil {
			t.Errorf("%+v is served", o)
		}
	}
}

// TestNumbers checks that the server allocates no more bytes for a client than the options allow.
func TestNumbers(t *testing.T) {
	o := Options{Window: 8, Sizes: []int{10, 100, 20}}
	for _, tc := range []struct {
		in, out uint32
		want    error
	}{
		{800, 800, io.EOF},
		{1, 1, io.EOF},
		{0, 1, errNumbers},
		{1, 0, errNumbers},
		{801, 1, errNumbers},
		{1, 801, errNumbers},
		{math.MaxUint32, 1, errNumbers},
	} {
		near, far := net.Pipe()
		go func() {
			head := binary.LittleEndian.AppendUint32(nil, tc.in)
			_, _ = far.Write(binary.LittleEndian.AppendUint32(head, tc.out))
			if tc.want == io.EOF { //nolint:errorlint // one of the values above
				_, _ = far.Write(make([]byte, tc.in))
				_, _ = io.ReadFull(far, make([]byte, tc.out))
			}
			_ = far.Close()
		}()
		if err := answer(near, o.mostBytes()); !errors.Is(err, tc.want) {
			t.Errorf("%d bytes, %d of the answer: %v, want %v", tc.in, tc.out, err, tc.want)
		}
	}
}

// TestPercentiles checks the values of durations that are known.
func TestPercentiles(t *testing.T) {
	var took []time.Duration
	for i := range 101 {
		took = append(took, time.Duration(i+1)*2*time.Microsecond)
	}
	if median, p99 := halves(took); int(median+.5) != 51 || int(p99+.5) != 100 {
		t.Errorf("half round trips: %v, %v", median, p99)
	}
	if median, p99 := rates(took, 204); int(median+.5) != 2 || int(p99+.5) != 1 {
		t.Errorf("rates: %v, %v", median, p99)
	}
}
