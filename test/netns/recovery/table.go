//go:build linux

package recovery

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gobtl/internal/report"
)

// machine describes the machine of the measurements.
func machine(o Options) []string {
	m := report.ThisMachine()
	return []string{
		fmt.Sprintf("%s (%d CPUs), Linux %s", m.CPUModel, m.CPUs, m.Kernel),
		fmt.Sprintf("%d rounds, %v each, TCP %s", o.Rounds, o.Each, o.Congestion),
	}
}

// place identifies a cell of the tables.
type place struct{ measured, setting, system, key string }

// rounds holds the values of a table cell by round.
func (r *Result) rounds(p place) map[int]float64 {
	all := make(map[int]float64)
	for _, s := range r.Samples {
		if v, has := s.Values[p.key]; has && s.Case == p.measured && s.Setting == p.setting &&
			s.System == p.system {
			all[s.Round] = v
		}
	}
	return all
}

// Median returns the median of the rounds' values, where ok is false if there are none.
func (r *Result) Median(c, setting, system, key string) (value float64, ok bool) {
	all := slices.Collect(maps.Values(r.rounds(place{c, setting, system, key})))
	return report.Median(all), len(all) > 0
}

// ratio is the median of the ratios to another cell's value of the same round, because a slow
// machine slows down both.
func (r *Result) ratio(of, to place) (value float64, ok bool) {
	var all []float64
	base := r.rounds(to)
	for round, v := range r.rounds(of) {
		if b := base[round]; b > 0 {
			all = append(all, v/b)
		}
	}
	return report.Median(all), len(all) > 0
}

// column is a column of a table.
type column struct {
	head string
	key  string
	// If of is not empty, the column shows the percentage of the value of another setting or
	// system, as the median over the rounds.
	ofSetting, ofSystem string
	digits              int // behind the point; -1 as needed
}

// layouts holds the table of each case.
var layouts = map[string]struct {
	title   string
	columns []column
}{
	"loss": {
		"Random loss in both directions, two tests: a stream of messages of 1 MiB, a ping-pong of 8 B",
		[]column{
			{head: "MB/s", key: "goodput_MBps", digits: 1},
			{head: "% of 0", key: "goodput_MBps", ofSetting: "0 %", digits: 0},
			{head: "resent %", key: "resent_pct", digits: 2},
			{head: "trips", key: "round_trips", digits: 0},
			{head: "p50 us", key: "p50_us", digits: 0},
			{head: "p99 us", key: "p99_us", digits: 0},
			{head: "p99.9 us", key: "p999_us", digits: 0},
			{head: "max us", key: "max_us", digits: 0},
		},
	},
	"share": {
		"Bottleneck of 100 Mbit/s, by the size of its queue",
		[]column{
			{head: "link %", key: "use_pct", digits: 1},
			{head: "Mbit/s", key: "goodput_Mbps", digits: 1},
			{head: "2nd", key: "goodput2_Mbps", digits: 1},
			{head: "2nd %", key: "share2_pct", digits: 0},
			{head: "Jain", key: "jain", digits: 3},
			{head: "resent %", key: "resent_pct", digits: 2},
			{head: "2nd", key: "resent2_pct", digits: 2},
			{head: "dropped %", key: "dropped_pct", digits: 2},
		},
	},
	"incast": {
		"Incast: several processes send to one process",
		[]column{
			{head: "complete", key: "complete", digits: 0},
			{head: "seconds", key: "seconds", digits: 2},
			{head: "MB/s", key: "goodput_MBps", digits: 0},
			{head: "Jain", key: "jain", digits: 3},
			{head: "overruns", key: "overruns", digits: 0},
			{head: "resent %", key: "resent_pct", digits: 2},
		},
	},
	"pause": {
		"During a stream of 64 KiB messages, the receiver's process stops for 200 ms",
		[]column{
			{head: "MB/s before", key: "before_MBps", digits: 0},
			{head: "after", key: "after_MBps", digits: 0},
			{head: "back ms", key: "back_ms", digits: 0},
			{head: "resent", key: "resent", digits: 0},
			{head: "in vain", key: "duplicates", digits: 0},
			{head: "overruns", key: "overruns", digits: 0},
		},
	},
	"clean": {
		"Cable without loss, with offloads; %: relative to adaptive without congestion control",
		[]column{
			{head: "p50 us", key: "p50_us", digits: 2},
			{head: "%", key: "p50_us", ofSystem: "fixed", digits: 0},
			{head: "p99 us", key: "p99_us", digits: 1},
			{head: "MB/s", key: "goodput_MBps", digits: 0},
			{head: "%", key: "goodput_MBps", ofSystem: "fixed", digits: 0},
			{head: "8 B M/s", key: "rate_Mps", digits: 2},
			{head: "%", key: "rate_Mps", ofSystem: "fixed", digits: 0},
			{head: "resent %", key: "resent_pct", digits: 3},
		},
	},
}

// Write writes all tables.
func (r *Result) Write(w io.Writer) error { return r.write(w, Cases) }

// write writes the tables of some cases.
func (r *Result) write(w io.Writer, cases []string) error {
	var b bytes.Buffer
	for _, line := range r.Machine {
		fmt.Fprintln(&b, line)
	}
	if r.Unfinished != "" {
		fmt.Fprintln(&b, "unfinished:", r.Unfinished)
	}
	for _, c := range cases {
		r.table(&b, c)
	}
	failed := 0
	for _, s := range r.Samples {
		if s.Err != "" {
			if failed++; failed == 1 {
				fmt.Fprintln(&b, "\nFailed:")
			}
			fmt.Fprintf(&b, "%s, %s, %s, round %d: %s\n", s.Case, s.Setting, r.label(s.System), s.Round,
				strings.ReplaceAll(s.Err, "\n", "; "))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Result) label(id string) string {
	for _, s := range r.Systems {
		if s.ID == id {
			return s.Label
		}
	}
	return id
}

// table writes the table of a case, with a row for each setting and system in the order of the
// samples.
func (r *Result) table(b *bytes.Buffer, c string) {
	type key struct{ setting, system string }
	var keys []key
	for _, s := range r.Samples {
		if k := (key{s.Setting, s.System}); s.Case == c && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	// Settings stay in order, and the systems of one setting stand together.
	settings := report.InOrder(keys, func(k *key) string { return k.setting })
	slices.SortStableFunc(keys, func(a, b key) int {
		return slices.Index(settings, a.setting) - slices.Index(settings, b.setting)
	})
	layout := layouts[c]
	head := []string{"", ""}
	for _, col := range layout.columns {
		head = append(head, col.head)
	}
	t := report.Table{Heads: [][]string{head}, Left: []int{0, 1}}
	last := ""
	for _, k := range keys {
		row := []string{k.setting, r.label(k.system)}
		if k.setting == last {
			row[0] = ""
		}
		last = k.setting
		for _, col := range layout.columns {
			row = append(row, r.cell(c, k.setting, k.system, col))
		}
		t.Rows = append(t.Rows, row)
	}
	fmt.Fprintf(b, "\n%s\n\n%s", layout.title, t.String())
}

func (r *Result) cell(c, setting, system string, col column) string {
	v, ok := r.Median(c, setting, system, col.key)
	if col.ofSetting != "" || col.ofSystem != "" {
		base := place{c, setting, system, col.key}
		if col.ofSetting != "" {
			base.setting = col.ofSetting
		}
		if col.ofSystem != "" {
			base.system = col.ofSystem
		}
		v, ok = r.ratio(place{c, setting, system, col.key}, base)
		v *= 100
	}
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', col.digits, 64)
}

// CSV writes every value of every round.
func (r *Result) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"case", "setting", "system", "round", "figure", "value"}) // see Error
	for _, s := range r.Samples {
		keys := make([]string, 0, len(s.Values))
		for k := range s.Values {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			_ = out.Write([]string{
				s.Case, s.Setting, s.System, strconv.Itoa(s.Round), k,
				strconv.FormatFloat(s.Values[k], 'g', 8, 64),
			})
		}
	}
	out.Flush()
	return out.Error()
}

// documented are the cases whose tables a document has. A plot shows the case "share".
var documented = []string{"loss", "incast", "pause"}

// UpdateDocs returns a document in which the tables of the documented cases, with links to the
// plots, replace the text between the lines "sockets:begin" and "sockets:end".
func (r *Result) UpdateDocs(doc []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := r.write(&b, documented); err != nil {
		return nil, err
	}
	var plots []string
	for _, name := range PlotNames() {
		plots = append(plots, report.PlotPath(name))
	}
	return report.Between(doc, "sockets", "```text\n"+b.String()+"```\n\n"+report.Links(plots))
}
