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

// source is a stream that is watched.
type source struct {
	stats func() stream.Stats
	done  <-chan struct{}
	total uint64 // 0: no end
}

// sample is a stream at an instant, with the rates since the sample before.
type sample struct {
	stream int
	at     time.Time
	fields []field
}

// field is a figure of a sample: what Prometheus and InfluxDB get alike.
type field struct {
	name, help string
	value      float64
	counter    bool // it never falls
}

// newSample makes a sample of what a stream has counted since the one before.
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
	return sample{stream: i, at: now, fields: []field{
		{
			"queue_percent", "Regions of the ring that are populated.",
			percent(float64(st.Populated), float64(st.Capacity)), false,
		},
		{"cpu_percent", "CPU time of the process.", percent(float64(cpu), float64(wall)), false},
		{"gigabits_per_second", "Message bytes in 10^9 bits per second.", gbit, false},
		{"messages", "Messages sent, or received whole.", float64(messages), true},
		{"missing", "Messages that were sent and did not come (so far).", float64(st.Missing), false},
		{"late", "Messages that came after their region was handed over.", float64(st.Late), true},
		{"overrun", "Messages that found no free region.", float64(st.Overrun), true},
		{"duplicates", "Datagrams that came again.", float64(st.Duplicates), true},
		{"sender_dropped", "Messages that the sender gave up.", float64(st.SenderDropped), true},
		{
			"socket_drops", "Datagrams that the kernel dropped at the socket.",
			float64(st.SocketDrops), true,
		},
		{"send_errors", "Datagrams that the fabric refused.", float64(st.SendErrors), true},
	}}
}

// sampler looks at the streams while they run: for the metrics, and for the progress bar.
type sampler struct {
	env     *environment
	c       *cli
	sources []source
	influx  *influx
	prom    *metricsServer
	bar     *progressbar.ProgressBar
	stop    chan struct{}
	ended   sync.WaitGroup
	last    []lastSample
}

// lastSample is what the next sample of a stream is compared with.
type lastSample struct {
	at       time.Time
	cpu      time.Duration
	stats    stream.Stats
	interval uint64
	closed   bool
}

const (
	tickFast = 25 * time.Millisecond // with -v
	tickSlow = 100 * time.Millisecond
	// sampleEvery is how often Prometheus gets a new sample without -v.
	sampleEvery = time.Second
)

func newSampler(
	env *environment, c *cli, port *stream.Port, sources []source,
) (s *sampler, err error) {
	s = &sampler{env: env, c: c, sources: sources, stop: make(chan struct{})}
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

// openBar shows a bar on a terminal.
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
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(tickSlow),
		progressbar.OptionClearOnFinish(),
	)
}

func (s *sampler) run() {
	defer s.ended.Done()
	every := tickSlow
	if s.c.Every > 0 {
		every = tickFast
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		now := time.Now()
		for i := range s.sources {
			s.look(i, now)
		}
		if s.bar != nil && n%int(tickSlow/every) == 0 {
			s.draw(now)
		}
	}
}

// look takes a sample of a stream if it is time for one.
func (s *sampler) look(i int, now time.Time) {
	last := &s.last[i]
	if last.closed {
		return
	}
	select {
	case <-s.sources[i].done:
		last.closed = true
		s.take(i, now, true)
		return
	default:
	}
	st := s.sources[i].stats()
	if v := s.c.Every; v > 0 && max(st.Received, st.Sent)/v > last.interval {
		last.interval = max(st.Received, st.Sent) / v
		s.take(i, now, true)
	} else if now.Sub(last.at) >= sampleEvery && s.prom != nil {
		s.take(i, now, false)
	}
}

// take takes a sample and shows it.
func (s *sampler) take(i int, now time.Time, post bool) {
	last := &s.last[i]
	st, cpu := s.sources[i].stats(), processCPU()
	sm := newSample(i, now, &st, &last.stats, now.Sub(last.at), cpu-last.cpu)
	last.at, last.cpu, last.stats = now, cpu, st
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

// draw moves the bar. A terminal that went away is no reason to stop.
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

// close takes the last samples and ends.
func (s *sampler) close() error {
	close(s.stop)
	s.ended.Wait()
	now := time.Now()
	for i := range s.sources {
		if !s.last[i].closed {
			s.take(i, now, true)
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
