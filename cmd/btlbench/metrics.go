package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gobtl/btl/btlprom"
	"gobtl/cmd/btlbench/layers"
	"gobtl/internal/bounded"
)

// metricsServer serves the transport's counters to Prometheus while the program runs. A nil
// metricsServer does nothing.
type metricsServer struct {
	registry *prometheus.Registry
	http     *http.Server

	lock       sync.Mutex
	collectors map[string]prometheus.Collector // of the latest module of each stream
}

// serveMetrics starts a server on an address, or does nothing if the address is empty.
func serveMetrics(env *environment, addr string) (*metricsServer, error) {
	if addr == "" {
		return nil, nil //nolint:nilnil // A nil server is one that does nothing.
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot serve metrics on %s: %w; choose another address with --metrics",
			addr, err)
	}
	s := &metricsServer{
		registry: prometheus.NewRegistry(), collectors: make(map[string]prometheus.Collector),
	}
	s.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	s.http = bounded.HTTPServer(mux)
	go func() {
		if err := s.http.Serve(bounded.HTTPListener(listener)); !errors.Is(err, http.ErrServerClosed) {
			env.notef("metrics: %v", err)
		}
	}()
	env.notef("metrics on http://%v/metrics", listener.Addr())
	return s, nil
}

// watch makes the counters of a side's module available under the number of its stream, in place of
// an earlier module.
func (s *metricsServer) watch(side *layers.Side, stream int) {
	stats, ok := side.Stats()
	if s == nil || !ok {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	name := strconv.Itoa(stream)
	if c := s.collectors[name]; c != nil {
		s.registry.Unregister(c)
	}
	labels := prometheus.Labels{"provider": side.Info.Provider, "stream": name}
	s.collectors[name] = btlprom.NewCollector(stats, labels)
	s.registry.MustRegister(s.collectors[name])
}

// close stops the server after the scrape in progress.
func (s *metricsServer) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}
