package measure

import (
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/session"
	"gobtl/internal/report"
)

// Schema is the name of the JSON form, which stays the same if fields are added but not if a field
// changes its meaning.
const Schema = "gobtl-bench/1"

// Document is the report of a run. The JSON format writes all of it, and the other formats show
// parts of it.
type Document struct {
	Schema      string       `json:"schema"`
	Version     string       `json:"version"`
	StartedAt   time.Time    `json:"started_at"`
	ElapsedS    float64      `json:"elapsed_s"`
	Command     string       `json:"command"`
	Interrupted bool         `json:"interrupted"`
	Config      plan.Flags   `json:"config"`
	Sides       sides        `json:"sides"`
	Runs        []RunRecord  `json:"runs"`
	Skipped     []skipRecord `json:"skipped"`

	Verbose bool `json:"-"` // the table shows what the sides knew and counted as well
}

// sides describes both sides.
type sides struct {
	Client layers.SideFacts `json:"client"`
	Server layers.SideFacts `json:"server"`
}

// RunRecord is the record of one test of one size on one layer. Rates are medians over the rounds,
// latencies come from the histogram of all rounds, and counts are sums over the rounds and, except
// in Counters, over both sides.
type RunRecord struct {
	Test       string               `json:"test"`
	Layer      string               `json:"layer"`
	Provider   string               `json:"provider"`
	Profile    string               `json:"profile"`
	SizeBytes  int                  `json:"size_bytes"`
	Iterations int64                `json:"iterations"` // round trips, or messages
	Latency    *layers.LatencyStats `json:"latency_us"` // null for tests of a flow
	Bandwidth  float64              `json:"bandwidth_mb_per_s"`
	Rate       float64              `json:"messages_per_s"`

	Retransmits   uint64 `json:"retransmits"`
	Duplicates    uint64 `json:"duplicates"`
	VerifiedBytes int64  `json:"verified_bytes"`
	CorruptBytes  int64  `json:"corrupt_bytes"`
	CPUPercent    struct {
		Client float64 `json:"client"`
		Server float64 `json:"server"`
	} `json:"cpu_percent"`

	Window              int     `json:"window"`
	MTUBytes            int     `json:"mtu_bytes"`
	SegmentsSent        uint64  `json:"segments_sent"`
	RetransmitRatio     float64 `json:"retransmit_ratio"` // of the segments sent
	MissingMessages     int64   `json:"missing_messages"`
	DuplicatedMessages  int64   `json:"duplicated_messages"`
	LostDatagrams       int64   `json:"lost_datagrams"` // layer raw only
	LatenciesOutOfRange int64   `json:"latencies_out_of_range"`
	// RatioToRaw is the ratio to the raw layer in the same rounds, of p50 or of the rate, or null
	// without the raw layer.
	RatioToRaw *float64      `json:"ratio_to_raw"`
	Rounds     []roundRecord `json:"rounds"`
	// NsPerMessage is the time per message of a flow, or 0 for a latency test.
	NsPerMessage float64 `json:"ns_per_message"`
	// GarbageCollections counts the garbage collections during the measurement, without the
	// warm-up.
	GarbageCollections struct {
		Client uint64 `json:"client"`
		Server uint64 `json:"server"`
	} `json:"garbage_collections"`
	// Waits count the waits of the sides, and Crowded is how often a side found that other threads
	// want its processor.
	Waits struct {
		Client WaitsRecord `json:"client"`
		Server WaitsRecord `json:"server"`
	} `json:"waits"`
	// Load is the load during lat_load, and LoadBandwidth is the bandwidth of the load's stream.
	// RatioToIdle is the ratio of the p50 under load to the p50 of the idle rounds. In all tests
	// except lat_load, the fields Load, LoadBandwidth and RatioToIdle are empty or null.
	Load          string   `json:"load"`
	LoadBandwidth float64  `json:"load_mb_per_s"`
	RatioToIdle   *float64 `json:"ratio_to_idle"`
	// The following fields are the same ratios for the whole run, for a table with both ratios.
	shownToRaw, shownToIdle *float64

	// Streams is the number of concurrent streams, each with Window messages in flight.
	Streams int `json:"streams"`
	// Intervals are the intervals that were reported (--interval), and IntervalsLeftOut is the
	// number of intervals that are not stored.
	Intervals        []*IntervalRecord `json:"intervals,omitempty"`
	IntervalsLeftOut int64             `json:"intervals_left_out,omitempty"`

	Counters struct {
		Client map[string]uint64 `json:"client"`
		Server map[string]uint64 `json:"server"`
	} `json:"counters"`
	// AtEnd is the state of the sides at the end of the last round.
	AtEnd struct {
		Client layers.State `json:"client"`
		Server layers.State `json:"server"`
	} `json:"at_end"`
}

// WaitsRecord counts how a side has waited.
type WaitsRecord struct {
	Sleeps  uint64 `json:"sleeps"`
	Yields  uint64 `json:"yields"`
	Crowded uint64 `json:"crowded"`
}

func newWaitsRecord(u *layers.Usage) WaitsRecord {
	return WaitsRecord{Sleeps: u.Sleeps, Yields: u.Yields, Crowded: u.Crowded}
}

// roundRecord is one round of a run.
type roundRecord struct {
	Iterations int64                `json:"iterations"`
	ElapsedS   float64              `json:"elapsed_s"`
	Latency    *layers.LatencyStats `json:"latency_us"`
	Bandwidth  float64              `json:"bandwidth_mb_per_s"`
	Rate       float64              `json:"messages_per_s"`
	// LoadBandwidth is the bandwidth of the stream of lat_load.
	LoadBandwidth float64 `json:"load_mb_per_s"`
	// Streams holds the values of single --parallel streams.
	Streams []streamRecord `json:"streams,omitempty"`
}

// streamRecord is the share of one stream in a round.
type streamRecord struct {
	Latency   *layers.LatencyStats `json:"latency_us"`
	Bandwidth float64              `json:"bandwidth_mb_per_s"`
	Rate      float64              `json:"messages_per_s"`
}

// skipRecord is a run that a layer does not support.
type skipRecord struct {
	Test      string `json:"test"`
	Layer     string `json:"layer"`
	SizeBytes int    `json:"size_bytes"`
	Reason    string `json:"reason"`
}

// measurement collects the rounds of one variant of a combination.
type measurement struct {
	variant
	test              string
	sizeBytes, window int
	merged            *layers.Hist
	rounds            []roundRecord
	client, server    session.RoundResult
	lost              int64
	intervals         []*IntervalRecord
	intervalsLeftOut  int64
}

func newMeasurement(c *combination, v variant) *measurement {
	m := &measurement{variant: v, test: c.test, sizeBytes: c.sizeBytes, window: c.window}
	if plan.IsLatency(c.test) {
		m.merged = layers.NewHist()
	}
	return m
}

// add adds a round. If the user interrupts a round before it has measured anything, only the
// verdict of the round is added.
func (m *measurement) add(streams []*session.Outcome) {
	each := streamRecords(streams)
	o := session.Sum(streams)
	addResult(&m.client, &o.Client)
	addResult(&m.server, &o.Server)
	m.lost += o.Meter.Lost
	if o.Meter.Messages == 0 || o.Meter.Elapsed <= 0 {
		return
	}
	seconds := o.Meter.Elapsed.Seconds()
	r := roundRecord{
		Iterations: o.Meter.Messages,
		ElapsedS:   seconds,
		Bandwidth:  report.Decimals(float64(o.Meter.Bytes)/seconds/1e6, 6),
		Rate:       report.Decimals(float64(o.Meter.Messages)/seconds, 3),

		LoadBandwidth: report.Decimals(float64(o.Meter.LoadBytes)/seconds/1e6, 6),
	}
	if o.Meter.Window > 0 {
		m.window = min(m.window, o.Meter.Window)
	}
	if m.merged != nil {
		r.Iterations = o.Meter.Hist.Count()
		r.Latency = o.Meter.Hist.Stats()
		m.merged.Merge(o.Meter.Hist)
	}
	r.Streams = each
	m.rounds = append(m.rounds, r)
}

// streamRecords are the shares of the streams in a round, or nil for a single stream.
func streamRecords(streams []*session.Outcome) (list []streamRecord) {
	if len(streams) == 1 {
		return nil
	}
	for _, o := range streams {
		var r streamRecord
		if seconds := o.Meter.Elapsed.Seconds(); seconds > 0 {
			r.Bandwidth = report.Decimals(float64(o.Meter.Bytes)/seconds/1e6, 6)
			r.Rate = report.Decimals(float64(o.Meter.Messages)/seconds, 3)
		}
		if o.Meter.Hist != nil {
			r.Latency = o.Meter.Hist.Stats()
		}
		list = append(list, r)
	}
	return list
}

func addResult(r, o *session.RoundResult) {
	r.Tally.Add(&o.Tally)
	r.Usage.Add(o.Usage)
	r.Counters.Add(o.Counters)
	r.State = o.State
}

// record makes the report of the rounds, without comparisons with other measurements.
func (m *measurement) record(provider string, facts layers.Facts) RunRecord {
	rec := RunRecord{
		Test: m.test, Layer: m.layer, Provider: provider, Profile: facts.Profile,
		SizeBytes: m.sizeBytes, Window: m.window, MTUBytes: facts.MTUBytes, Rounds: m.rounds,
		Retransmits:        m.client.Counters.Retransmits + m.server.Counters.Retransmits,
		Duplicates:         m.client.Counters.Duplicates + m.server.Counters.Duplicates,
		SegmentsSent:       m.client.Counters.SegmentsSent + m.server.Counters.SegmentsSent,
		VerifiedBytes:      m.client.Tally.VerifiedBytes + m.server.Tally.VerifiedBytes,
		CorruptBytes:       m.client.Tally.CorruptBytes + m.server.Tally.CorruptBytes,
		MissingMessages:    m.client.Tally.Missing + m.server.Tally.Missing,
		DuplicatedMessages: m.client.Tally.Duplicates + m.server.Tally.Duplicates,
		LostDatagrams:      m.lost,
		Intervals:          m.intervals,
		IntervalsLeftOut:   m.intervalsLeftOut,
	}
	rec.Streams = 1
	for i := range m.rounds {
		rec.Streams = max(rec.Streams, len(m.rounds[i].Streams))
	}
	rec.Bandwidth = median(m.rounds, func(r *roundRecord) float64 { return r.Bandwidth })
	rec.Rate = median(m.rounds, func(r *roundRecord) float64 { return r.Rate })
	rec.LoadBandwidth = median(m.rounds, func(r *roundRecord) float64 { return r.LoadBandwidth })
	if m.test == plan.TestLatLoad {
		rec.Load = m.load.String()
	}
	if m.merged == nil && rec.Rate > 0 {
		rec.NsPerMessage = report.Decimals(1e9/rec.Rate, 3)
	}
	for i := range m.rounds {
		rec.Iterations += m.rounds[i].Iterations
	}
	if m.merged != nil {
		rec.Latency = m.merged.Stats()
		rec.LatenciesOutOfRange = m.merged.Clipped
	}
	if m.layer == plan.LayerRaw && rec.VerifiedBytes > 0 {
		// If messages are verified, their number is exact, and the other count is wrong if
		// datagrams arrived twice.
		rec.LostDatagrams = max(rec.LostDatagrams, rec.MissingMessages)
	}
	if rec.SegmentsSent > 0 {
		rec.RetransmitRatio = float64(rec.Retransmits) / float64(rec.SegmentsSent)
	}
	rec.CPUPercent.Client = m.client.Usage.Percent()
	rec.CPUPercent.Server = m.server.Usage.Percent()
	rec.Waits.Client = newWaitsRecord(&m.client.Usage)
	rec.Waits.Server = newWaitsRecord(&m.server.Usage)
	rec.GarbageCollections.Client = m.client.Usage.Collections
	rec.GarbageCollections.Server = m.server.Usage.Collections
	rec.Counters.Client = orEmpty(m.client.Counters.All)
	rec.Counters.Server = orEmpty(m.server.Counters.All)
	rec.AtEnd.Client, rec.AtEnd.Server = m.client.State, m.server.State
	return rec
}

// orEmpty makes an empty object of a value that would be null in JSON.
func orEmpty(counts map[string]uint64) map[string]uint64 {
	if counts == nil {
		return map[string]uint64{}
	}
	return counts
}

// shownRatio is the ratio of two runs, of p50 or of the rate.
func shownRatio(r, base *RunRecord) *float64 {
	figure := func(r *RunRecord) float64 {
		if r.Latency != nil {
			return r.Latency.P50
		}
		return r.Rate
	}
	per := figure(base)
	if per <= 0 {
		return nil
	}
	ratio := figure(r) / per
	return &ratio
}

// ratioTo is the median, over the rounds that both measurements have, of the ratio of their values,
// or nil without another measurement.
func (m *measurement) ratioTo(base *measurement) *float64 {
	if base == nil {
		return nil
	}
	figure := func(r *roundRecord) float64 {
		switch {
		case r.Latency != nil:
			return r.Latency.P50
		case m.sizeBytes == 0:
			return r.Rate
		}
		return r.Bandwidth
	}
	var ratios []float64
	for i := range min(len(m.rounds), len(base.rounds)) {
		if per := figure(&base.rounds[i]); per > 0 {
			ratios = append(ratios, figure(&m.rounds[i])/per)
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	ratio := report.Decimals(report.Median(ratios), 3)
	return &ratio
}

func median(rounds []roundRecord, figure func(*roundRecord) float64) float64 {
	var all []float64
	for i := range rounds {
		all = append(all, figure(&rounds[i]))
	}
	return report.Decimals(report.Median(all), 6)
}
