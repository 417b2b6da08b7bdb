package compare

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	"gobtl/cmd/btlbench/systems"
	"gobtl/internal/report"
)

// Schema is the name of the JSON form, which stays the same if fields are added but not if a field
// changes its meaning.
const Schema = "gobtl-compare/2"

// Report holds the results of a comparison.
type Report struct {
	Schema      string         `json:"schema"`
	StartedAt   time.Time      `json:"started_at"`
	ElapsedS    float64        `json:"elapsed_s"`
	Interrupted bool           `json:"interrupted"`
	Machine     report.Machine `json:"machine"`
	CPUs        []int          `json:"pinned_cpus"`
	Table       systems.Table  `json:"table"`
	Rounds      int            `json:"rounds"`
	// UsualPingNs is the usual distance of the two CPUs, which is the time in ns for one way
	// through a cache line, or 0 if it is unknown.
	UsualPingNs float64        `json:"usual_ping_ns,omitempty"`
	EachMs      float64        `json:"each_ms"`
	Systems     []systems.Info `json:"systems"`
	Results     []*Result      `json:"results"`
	Skipped     []Skip         `json:"skipped"`
	Failures    []Failure      `json:"failures"`
}

// Result has the measurements of all rounds of one system at one point.
type Result struct {
	System string `json:"system"`
	systems.Point
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	// P50Us is the median over the rounds of the median half round trip, or 0 if it is unknown.
	P50Us float64 `json:"p50_us,omitempty"`
	// ToBest is the median, over the rounds that both systems have, of the value divided by the value
	// of the best other system, which is the one with the best median. ToRaw is the ratio of the value
	// to that of the bare fabric, computed like ToBest. ToRaw is null if the bare fabric was not
	// measured.
	ToBest *float64 `json:"ratio_to_best_peer"`
	ToRaw  *float64 `json:"ratio_to_raw"`
	Rounds []Value  `json:"rounds"`
}

// Value is the measured value of one round.
type Value struct {
	Round       int     `json:"round"`
	Value       float64 `json:"value"`
	MedianUs    float64 `json:"p50_us,omitempty"`
	ResentRatio float64 `json:"resent_ratio,omitempty"`
	LostRatio   float64 `json:"lost_ratio,omitempty"`
	// PingNs is the larger of the distances of the CPUs before and after the measurement, in ns.
	PingNs float64 `json:"ping_ns,omitempty"`
}

// Skip is a value that a system cannot have.
type Skip struct {
	System string `json:"system"`
	systems.Point
	Reason string `json:"reason"`
}

// Failure is a measurement that failed.
type Failure struct {
	System   string           `json:"system"`
	Workload systems.Workload `json:"workload,omitempty"`
	Round    int              `json:"round,omitempty"`
	Message  string           `json:"message"`
}

func newReport(cfg *Config) *Report {
	return &Report{
		Schema: Schema, StartedAt: time.Now().UTC().Truncate(time.Second), Machine: cfg.Machine,
		CPUs: append([]int{}, cfg.CPUs...), Table: cfg.Table, Rounds: cfg.Rounds,
		EachMs:  float64(cfg.Each) / float64(time.Millisecond),
		Systems: []systems.Info{}, Results: []*Result{}, Skipped: []Skip{}, Failures: []Failure{},
	}
}

func unitOf(w systems.Workload) string {
	return map[systems.Workload]string{
		systems.Latency: "us", systems.Stream: "MB/s", systems.Rate: "messages/s",
	}[w]
}

// find returns a system's result at a point, or nil.
func (r *Report) find(id string, p systems.Point) *Result {
	for _, res := range r.Results {
		if res.System == id && res.Point == p {
			return res
		}
	}
	return nil
}

// system returns a system's description.
func (r *Report) system(id string) *systems.Info {
	for i := range r.Systems {
		if r.Systems[i].ID == id {
			return &r.Systems[i]
		}
	}
	return &systems.Info{}
}

// order returns the position of a system in the report.
func (r *Report) order(id string) int {
	return slices.IndexFunc(r.Systems, func(s systems.Info) bool { return s.ID == id })
}

// finish sorts the results and computes the derived values.
func (r *Report) finish() {
	for _, res := range r.Results {
		res.Median = report.Significant(report.Median(res.values()))
		var p50s []float64
		for i := range res.Rounds {
			if us := res.Rounds[i].MedianUs; us > 0 {
				p50s = append(p50s, us)
			}
		}
		res.P50Us = report.Significant(report.Median(p50s))
	}
	slices.SortStableFunc(r.Results, func(a, b *Result) int {
		return cmp.Or(
			cmp.Compare(place(a.Workload), place(b.Workload)),
			cmp.Compare(a.Window*sign(a.Workload), b.Window*sign(b.Workload)),
			cmp.Compare(a.SizeBytes, b.SizeBytes),
			cmp.Compare(r.order(a.System), r.order(b.System)))
	})
	for _, res := range r.Results {
		if best := r.best(res.Point); best != nil {
			res.ToBest = res.ratioTo(best)
		}
		if about := r.system(res.System); about.RawID != "" {
			if raw := r.find(about.RawID, res.Point); raw != nil {
				res.ToRaw = res.ratioTo(raw)
			}
		}
	}
}

// The function place returns the position of a workload in the report.
func place(w systems.Workload) int { return slices.Index(systems.Workloads, w) }

// sign excludes the window of a stream from the order, because the window follows from the size.
func sign(w systems.Workload) int {
	if w == systems.Rate {
		return 1
	}
	return 0
}

// best returns the result with the best median of the other systems at a point, or nil.
func (r *Report) best(p systems.Point) *Result {
	var best *Result
	for _, res := range r.Results {
		if res.Point != p || r.system(res.System).Kind != systems.KindPeer {
			continue
		}
		if best == nil || better(p.Workload, res.Median, best.Median) {
			best = res
		}
	}
	return best
}

// better reports whether a value is better than another one.
func better(w systems.Workload, a, b float64) bool {
	if w == systems.Latency {
		return a < b
	}
	return a > b
}

func (res *Result) values() []float64 {
	var all []float64
	for i := range res.Rounds {
		all = append(all, res.Rounds[i].Value)
	}
	return all
}

// ratioTo is the median of the ratios in the rounds that both results have, or nil if there is
// none.
func (res *Result) ratioTo(base *Result) *float64 {
	var ratios []float64
	for i := range res.Rounds {
		for j := range base.Rounds {
			if base.Rounds[j].Round == res.Rounds[i].Round && base.Rounds[j].Value > 0 {
				ratios = append(ratios, res.Rounds[i].Value/base.Rounds[j].Value)
			}
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	ratio := report.Significant(report.Median(ratios))
	return &ratio
}

// GobtlFailed returns the reason why the comparison is useless because the transport or the bare
// fabric failed, or "" if neither failed.
func (r *Report) GobtlFailed() string {
	for i := range r.Failures {
		f := &r.Failures[i]
		if kind := r.system(f.System).Kind; kind == systems.KindBTL || kind == systems.KindRaw {
			return f.describe(r)
		}
	}
	return ""
}

// describe describes a failure as text.
func (f *Failure) describe(r *Report) string {
	what := r.system(f.System).Label
	if f.Workload != "" {
		what += ", " + string(f.Workload) + ", round " + strconv.Itoa(f.Round)
	}
	return what + ": " + f.Message
}

// WriteJSON writes the report as one JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// csvHeader names the CSV columns, where each line has one value of a round.
var csvHeader = []string{
	"started_at", "cpu_model", "kernel", "system", "kind", "version", "workload", "size_bytes",
	"window", "round", "value", "unit", "p50_us", "resent_ratio", "lost_ratio",
	"ping_ns",
}

// WriteCSV writes the values of all rounds as CSV.
func (r *Report) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(csvHeader); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for _, res := range r.Results {
		about := r.system(res.System)
		for i := range res.Rounds {
			v := &res.Rounds[i]
			p50 := ""
			if v.MedianUs > 0 {
				p50 = number(v.MedianUs)
			}
			err := c.Write([]string{
				r.StartedAt.Format(time.RFC3339), r.Machine.CPUModel, r.Machine.Kernel, res.System,
				string(about.Kind), about.Version, string(res.Workload), strconv.Itoa(res.SizeBytes),
				strconv.Itoa(res.Window), strconv.Itoa(v.Round), number(v.Value), res.Unit, p50,
				number(v.ResentRatio), number(v.LostRatio), number(v.PingNs),
			})
			if err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}
