//go:build linux

package main

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gobtl/btl/btlprom"
	"gobtl/cmd/btlvnic/agent"
	"gobtl/vnic"
)

// scrapeTimeout is the maximum duration of a scrape.
const scrapeTimeout = 2 * time.Second

// agentCollector exports the counters of an agent's ports and of its transport.
type agentCollector struct {
	a         *agent.Agent
	transport prometheus.Collector
	counters  map[string]*prometheus.Desc
	up        *prometheus.Desc
	leased    *prometheus.Desc
}

func newAgentCollector(a *agent.Agent) *agentCollector {
	c := &agentCollector{
		a: a, transport: btlprom.NewCollector(a.Stats, nil), counters: make(map[string]*prometheus.Desc),
		up: prometheus.NewDesc("btlvnic_port_forwarding", "1 if the port carries frames.",
			[]string{"port", "device"}, nil),
		leased: prometheus.NewDesc("btlvnic_manager_leased", "1 if a manager is obeyed.", nil, nil),
	}
	for _, name := range vnic.Counters() {
		c.counters[name.String()] = prometheus.NewDesc("btlvnic_"+name.String()+"_total",
			"Counter "+name.String()+" of the port.", []string{"port", "device"}, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *agentCollector) Describe(ch chan<- *prometheus.Desc) {
	c.transport.Describe(ch)
	for _, d := range c.counters {
		ch <- d
	}
	ch <- c.up
	ch <- c.leased
}

// Collect implements prometheus.Collector.
func (c *agentCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.transport.Collect(ch)
	list, err := c.a.Counters(ctx)
	if err != nil {
		return
	}
	for _, p := range list {
		for name, v := range p.Counters {
			ch <- prometheus.MustNewConstMetric(c.counters[name], prometheus.CounterValue, float64(v),
				strconv.Itoa(int(p.Port)), btlprom.LabelValue(p.Device))
		}
	}
	r, err := c.a.Report(ctx)
	if err != nil {
		return
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, one(p.State == "forwarding"),
			strconv.Itoa(int(p.Port)), btlprom.LabelValue(p.Device))
	}
	ch <- prometheus.MustNewConstMetric(c.leased, prometheus.GaugeValue, one(r.Leased))
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// managerCollector exports the numbers of a manager's hosts and messages.
type managerCollector struct {
	m         *manager
	transport prometheus.Collector
	hosts     *prometheus.Desc
	messages  *prometheus.Desc
}

func (m *manager) collector() *managerCollector {
	return &managerCollector{
		m: m, transport: btlprom.NewCollector(m.module.Stats, nil),
		hosts: prometheus.NewDesc("btlvnic_em_hosts", "Hosts of the file by state.",
			[]string{"state"}, nil),
		messages: prometheus.NewDesc("btlvnic_em_messages_total", "Management messages by kind.",
			[]string{"kind"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *managerCollector) Describe(ch chan<- *prometheus.Desc) {
	c.transport.Describe(ch)
	ch <- c.hosts
	ch <- c.messages
}

// Collect implements prometheus.Collector.
func (c *managerCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.transport.Collect(ch)
	states := map[string]int{"synced": 0, "connected": 0, "away": 0}
	var s vnic.ManagerStats
	if c.m.do(ctx, func() {
		s = c.m.core.Stats
		for _, h := range c.m.core.Hosts() {
			switch {
			case h.Synced:
				states["synced"]++
			case h.Connected:
				states["connected"]++
			default:
				states["away"]++
			}
		}
	}) != nil {
		return
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(c.hosts, prometheus.GaugeValue, float64(n), state)
	}
	for kind, n := range map[string]uint64{
		"request": s.Requests, "response": s.Responses, "refused": s.Refused,
		"malformed": s.Malformed, "stranger": s.Strangers, "unproven": s.Unproven,
		"older": s.Older, "trap": s.Traps, "trap_ignored": s.TrapsIgnored,
	} {
		ch <- prometheus.MustNewConstMetric(c.messages, prometheus.CounterValue, float64(n), kind)
	}
}
