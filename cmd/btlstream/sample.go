package main

import (
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"gobtl/stream"
)

// source is a stream from which samples are taken.
type source struct {
	stats func() stream.Stats
	done  <-chan struct{}
	total uint64 // number of messages; 0: endless
}

// measured holds the counters of a stream and the CPU time of the process at one instant.
type measured struct {
	stream int
	at     time.Time
	cpu    time.Duration
	stats  stream.Stats
}

// The type sample holds the counters of a stream at one instant, and the rates since the previous
// sample.
type sample struct {
	stream int
	at     time.Time
	fields []field
}

// field is a named value of a sample, for Prometheus and InfluxDB.
type field struct {
	name, help string
	value      float64
	counter    bool // the value never falls
}

// newSample makes a sample from the present counters of a stream and the counters at the previous
// sample.
func newSample(i int, now time.Time, st, before *stream.Stats, wall, cpu time.Duration) sample {
	messages := st.Received
	if st.Received == 0 && st.Late == 0 && st.Overrun == 0 && st.Missing == 0 {
		messages = st.Sent
	}
	percent := func(a, b float64) float64 {
		if b <= 0 {
			return 0
		}
		return math.Round(1e4*a/b) / 100
	}
	gbit := 0.0
	if wall > 0 && st.Bytes >= before.Bytes {
		gbit = math.Round(float64(st.Bytes-before.Bytes)*8/wall.Seconds()/1e3) / 1e6
	}
	s := sample{stream: i, at: now, fields: []field{
		{
			"queue_percent", "Regions of the ring that are populated.",
			percent(float64(st.Populated), float64(st.Capacity)), false,
		},
		{"cpu_percent", "CPU time of the process.", percent(float64(cpu), float64(wall)), false},
		{"gigabits_per_second", "Message bytes in 10^9 bits per second.", gbit, false},
		{"messages", "Messages sent, or received whole.", float64(messages), true},
		{"missing", "Messages that were sent and did not come (so far).", float64(st.Missing), false},
		{
			"missing_datagrams", "Datagrams of sent messages that did not come (so far).",
			float64(st.MissingDatagrams), false,
		},
		{"late", "Messages that came after their region was handed over.", float64(st.Late), true},
		{"overrun", "Messages that found no free region.", float64(st.Overrun), true},
		{"duplicates", "Datagrams that came again.", float64(st.Duplicates), true},
		{"sender_dropped", "Messages that the sender gave up.", float64(st.SenderDropped), true},
		{
			"socket_drops", "Packets dropped at the socket, for all streams; a run of datagrams is one.",
			float64(st.SocketDrops), true,
		},
		{"send_errors", "Datagrams that the fabric refused.", float64(st.SendErrors), true},
		{"full_drops", "Datagrams dropped for full receivers.", float64(st.FullDrops), true},
	}}
	for _, f := range refusedFields(&st.Refused) {
		s.fields = append(s.fields, field{
			"refused_" + f.reason, "Peers that were refused: " + f.reason + ".", float64(f.n), true,
		})
	}
	return s
}

// sampler takes samples of the running streams, for metrics and for the progress bar.
type sampler struct {
	env     *environment
	c       *cli
	sources []source
	samples <-chan measured
	influx  *influx
	prom    *metricsServer
	bar     *progressbar.ProgressBar
	stop    chan struct{}
	ended   sync.WaitGroup
	last    []lastSample
}

// lastSample is the previous sample of a stream, with which the next sample is compared.
type lastSample struct {
	at     time.Time
	cpu    time.Duration
	stats  stream.Stats
	closed bool
}

const (
	tick = 100 * time.Millisecond
	// samplesMax is the maximum number of samples that wait to be written by the option -v.
	samplesMax = 4096
	// sampleEvery is the interval between two samples for Prometheus, if -v is not given.
	sampleEvery = time.Second
)

func newSampler(
	env *environment, c *cli, port *stream.Port, sources []source, samples <-chan measured,
) (s *sampler, err error) {
	s = &sampler{env: env, c: c, sources: sources, samples: samples, stop: make(chan struct{})}
	s.last = make([]lastSample, len(sources))
	for i := range s.last {
		s.last[i] = lastSample{at: time.Now(), cpu: processCPU()}
	}
	role := "receiver"
	if c.Send {
		role = "sender"
	}
	if s.prom, err = serveMetrics(env, c.Metrics, role, port); err != nil {
		return nil, err
	}
	if c.Out != "" {
		url, err := influxURL(c.Out)
		if err != nil {
			return nil, err
		}
		s.influx = newInflux(env, url, role)
	}
	s.openBar()
	s.ended.Add(1)
	go s.run()
	return s, nil
}

// openBar shows a progress bar if standard error is a terminal.
func (s *sampler) openBar() {
	f, ok := s.env.stderr.(*os.File)
	if s.c.Quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	total := int64(0)
	for _, src := range s.sources {
		total += int64(src.total)
	}
	if total == 0 {
		total = -1 // a spinner
	}
	s.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.env.log),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(tick),
		progressbar.OptionClearOnFinish(),
	)
}

func (s *sampler) run() {
	defer s.ended.Done()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			for len(s.samples) > 0 {
				s.take(<-s.samples, true)
			}
			return
		case m := <-s.samples:
			s.take(m, true)
			continue
		case <-ticker.C:
		}
		now := time.Now()
		for i := range s.sources {
			s.look(i, now)
		}
		if s.bar != nil {
			s.draw(now)
		}
	}
}

// look takes a sample of a stream if the stream has ended, or if a sample is due.
func (s *sampler) look(i int, now time.Time) {
	last := &s.last[i]
	if last.closed {
		return
	}
	select {
	case <-s.sources[i].done:
		for len(s.samples) > 0 {
			s.take(<-s.samples, true)
		}
		last.closed = true
		s.take(s.measure(i, now), true)
		return
	default:
	}
	if s.c.Every == 0 && now.Sub(last.at) >= sampleEvery && s.prom != nil {
		s.take(s.measure(i, now), false)
	}
}

// measure reads the counters of a stream now.
func (s *sampler) measure(i int, now time.Time) measured {
	return measured{i, now, processCPU(), s.sources[i].stats()}
}

// take makes a sample from measured counters, and shows the sample. If the argument post is set,
// the sample is also sent to InfluxDB and to the log.
func (s *sampler) take(m measured, post bool) {
	i, last := m.stream, &s.last[m.stream]
	sm := newSample(i, m.at, &m.stats, &last.stats, m.at.Sub(last.at), m.cpu-last.cpu)
	last.at, last.cpu, last.stats = m.at, m.cpu, m.stats
	s.prom.show(sm)
	if !post {
		return
	}
	if s.influx != nil {
		s.influx.post(sm)
	}
	f := sm.fields
	s.env.logf(logInfo,
		"stream %d: queue %.1f %%, CPU %.1f %%, %.3f Gbit/s, %.0f messages, %.0f missing",
		i, f[0].value, f[1].value, f[2].value, f[3].value, f[4].value)
}

// draw updates the progress bar. If the terminal has gone away, the stream continues.
func (s *sampler) draw(now time.Time) {
	var messages, missing, bytes uint64
	for i := range s.sources {
		st := s.sources[i].stats()
		messages += max(st.Received, st.Sent)
		missing += st.Missing
		bytes += st.Bytes - min(st.Bytes, s.last[i].stats.Bytes)
	}
	gbit := float64(bytes) * 8 / 1e9 / max(now.Sub(s.last[0].at).Seconds(), 1e-3)
	text := fmt.Sprintf("%.2f Gbit/s", gbit)
	if missing > 0 {
		text += fmt.Sprintf(", %d missing", missing)
	}
	s.bar.Describe(text)
	_ = s.bar.Set64(int64(min(messages, math.MaxInt64)))
}

// close takes the last sample of each stream, and ends the sampler.
func (s *sampler) close() error {
	close(s.stop)
	s.ended.Wait()
	now := time.Now()
	for i := range s.sources {
		if !s.last[i].closed {
			s.take(s.measure(i, now), true)
		}
	}
	if s.bar != nil {
		_ = s.bar.Clear()
	}
	if s.influx != nil {
		s.influx.close()
	}
	return s.prom.close()
}
