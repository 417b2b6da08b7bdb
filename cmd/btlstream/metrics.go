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
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gobtl/btl/btlprom"
	"gobtl/internal/bounded"
	"gobtl/stream"
)

// metricsServer serves the latest samples and the counters of the transport to Prometheus. A nil
// metricsServer does nothing.
type metricsServer struct {
	http *http.Server
	role string

	lock   sync.Mutex
	latest map[int]sample // by stream
}

// serveMetrics starts a metrics server on an address. For an empty address serveMetrics returns a
// nil server.
func serveMetrics(
	env *environment, addr, role string, port *stream.Port,
) (*metricsServer, error) {
	if addr == "" {
		return nil, nil //nolint:nilnil // A nil server does nothing.
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot serve metrics: %w; choose another address with --metrics", err)
	}
	m := &metricsServer{role: role, latest: make(map[int]sample)}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, btlprom.NewCollector(port.Transport, prometheus.Labels{"role": role}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	m.http = bounded.HTTPServer(mux)
	go func() {
		if err := m.http.Serve(bounded.HTTPListener(listener)); !errors.Is(err, http.ErrServerClosed) {
			env.logf(logWarning, "metrics: %v", err)
		}
	}()
	env.logf(logNotice, "metrics on http://%v/metrics", listener.Addr())
	return m, nil
}

// show makes a sample the one that Prometheus reads for its stream.
func (m *metricsServer) show(s sample) {
	if m == nil {
		return
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.latest[s.stream] = s
}

// Describe implements prometheus.Collector. Describe sends no descriptions, so that the collector
// may export metrics that are known only later.
func (m *metricsServer) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metricsServer) Collect(ch chan<- prometheus.Metric) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for i, s := range m.latest {
		labels := prometheus.Labels{"role": m.role, "stream": strconv.Itoa(i)}
		for _, f := range s.fields {
			name, kind := "gobtl_stream_"+f.name, prometheus.GaugeValue
			if f.counter {
				name, kind = name+"_total", prometheus.CounterValue
			}
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, f.help, nil, labels), kind, f.value)
		}
	}
}

// close waits for a running scrape, and stops the server.
func (m *metricsServer) close() error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if m.http.Shutdown(ctx) != nil {
		return m.http.Close()
	}
	return nil
}
