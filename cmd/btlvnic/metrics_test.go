//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gobtl/internal/bounded"
)

// noted is a standard error that tells the address of the metrics.
type noted struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *noted) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *noted) address(t *testing.T) string {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	_, rest, ok := strings.Cut(n.text.String(), "http://")
	addr, _, found := strings.Cut(rest, "/metrics")
	if !ok || !found {
		t.Fatalf("no address: %q", n.text.String())
	}
	return addr
}

// TestMetricsGuests: guests that stay after their answer give way to others.
func TestMetricsGuests(t *testing.T) {
	out := &noted{}
	env := &environment{
		log: bounded.NewLog(out, "btlvnic"), stdout: io.Discard, ctx: t.Context(),
	}
	stop, err := serve(env, filepath.Join(t.TempDir(), "s"), http.NewServeMux(), "127.0.0.1:0",
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "one"}))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	env.log.Close() // the line with the address is written
	addr := out.address(t)
	var guests []net.Conn
	answered := func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := c.Read(make([]byte, 512)); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		answered(c)
		guests = append(guests, c)
	}
	// The first guest has been displaced: the read ends before its deadline.
	if _, err := io.Copy(io.Discard, guests[0]); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Error("the first of 100 guests is still served")
		}
	}
	answered(guests[99])
}

// busy is a collector that notes whether several requests are answered at once. Each answer waits a
// little for another one.
type busy struct {
	prometheus.Gauge
	now, most atomic.Int32
}

func (b *busy) Collect(c chan<- prometheus.Metric) {
	defer b.now.Add(-1)
	if n := b.now.Add(1); n > b.most.Load() {
		b.most.Store(n)
	}
	time.Sleep(20 * time.Millisecond)
	b.Gauge.Collect(c)
}

// TestSocketTurns: clients of the unix socket that ask for metrics without a pause are answered one
// after the other.
func TestSocketTurns(t *testing.T) {
	const clients = 4
	socket := filepath.Join(t.TempDir(), "s")
	env := &environment{
		log: bounded.NewLog(io.Discard, "btlvnic"), stdout: io.Discard, ctx: t.Context(),
	}
	defer env.log.Close()
	b := &busy{Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "one"})}
	stop, err := serve(env, socket, http.NewServeMux(), "", b)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", socket)
				},
			}}
			defer client.CloseIdleConnections()
			for range 3 {
				r, err := client.Get("http://socket/metrics")
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil || !strings.Contains(string(text), "one 0") {
					t.Errorf("%q, %v", text, err)
				}
			}
		})
	}
	all.Wait()
	if n := b.most.Load(); n != 1 {
		t.Errorf("%d requests were answered at once, want 1", n)
	}
}
