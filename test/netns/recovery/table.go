//go:build linux

package recovery

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine describes where the figures come from.
func machine(o Options) []string {
	cpu := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.Trim(name, "\t :\n")
				break
			}
		}
	}
	var u unix.Utsname
	kernel := "unknown kernel"
	if unix.Uname(&u) == nil {
		kernel = "Linux " + unix.ByteSliceToString(u.Release[:])
	}
	return []string{
		fmt.Sprintf("%s (%d CPUs), %s", cpu, runtime.NumCPU(), kernel),
		fmt.Sprintf("%d rounds, %v each, TCP %s", o.Rounds, o.Each, o.Congestion),
	}
}

// place is where a figure stands in the tables.
type place struct{ measured, setting, system, key string }

// rounds are the figures of a place by their rounds.
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

// Median is that of the rounds' values; ok is false if there are none.
func (r *Result) Median(c, setting, system, key string) (value float64, ok bool) {
	return median(slices.Collect(maps.Values(r.rounds(place{c, setting, system, key}))))
}

// ratio is the median of what the rounds' values are of those of another place, each of its own
// round: a machine that was slow for a while was so for both.
func (r *Result) ratio(of, to place) (value float64, ok bool) {
	var all []float64
	base := r.rounds(to)
	for round, v := range r.rounds(of) {
		if b := base[round]; b > 0 {
			all = append(all, v/b)
		}
	}
	return median(all)
}

func median(all []float64) (value float64, ok bool) {
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2, true
}

// column is one of a table.
type column struct {
	head string
	key  string
	// of, if not empty, makes it the percentage of the same figure of another setting or system, the
	// median of those of the rounds.
	ofSetting, ofSystem string
	digits              int // behind the point; -1 as needed
}

// layout is the table of a case.
var layouts = map[string]struct {
	title   string
	columns []column
}{
	"loss": {
		"Random loss, both ways: 1 MiB stream, round trips of 8 B",
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
		"Bottleneck of 100 Mbit/s, by the bytes of its queue",
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
		"Incast: processes that send to one",
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
		"The receiver's process stands still for 200 ms in a stream of 64 KiB messages",
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
		"Clean cable, with offloads; %: of adaptive without congestion control",
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
func (r *Result) Write(w io.Writer) error {
	var b bytes.Buffer
	for _, line := range r.Machine {
		fmt.Fprintln(&b, line)
	}
	if r.Unfinished != "" {
		fmt.Fprintln(&b, "unfinished:", r.Unfinished)
	}
	for _, c := range Cases {
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

// table writes the table of a case: a row for each setting and system, in the order of the samples.
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
	// Settings stay in order; the systems of one stand together.
	var settings []string
	for _, k := range keys {
		if !slices.Contains(settings, k.setting) {
			settings = append(settings, k.setting)
		}
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		return slices.Index(settings, a.setting) - slices.Index(settings, b.setting)
	})
	layout := layouts[c]
	rows := [][]string{{"", ""}}
	for _, col := range layout.columns {
		rows[0] = append(rows[0], col.head)
	}
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
		rows = append(rows, row)
	}
	fmt.Fprintf(b, "\n%s\n\n%s", layout.title, align(rows))
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

// align pads a table: the first two columns to the left, figures to the right.
func align(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i < 2 {
				fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
			} else {
				fmt.Fprintf(&line, "%*s  ", widths[i], cell)
			}
		}
		text := strings.TrimRight(line.String(), " ")
		b.WriteString(text + "\n")
		if n == 0 {
			b.WriteString(strings.Repeat("-", len(text)) + "\n")
		}
	}
	return b.String()
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

// The lines between which a run writes into a document.
const (
	docsBegin = "<!-- sockets:begin -->"
	docsEnd   = "<!-- sockets:end -->"
)

// UpdateDocs returns a document with what stands between its markers replaced by the tables.
func (r *Result) UpdateDocs(doc []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(doc, []byte(docsBegin+"\n"))
	_, after, okEnd := bytes.Cut(rest, []byte(docsEnd))
	if !ok || !okEnd {
		return nil, errors.New("no lines " + docsBegin + " and " + docsEnd)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n```text\n", docsBegin)
	if err := r.Write(&b); err != nil {
		return nil, err
	}
	fmt.Fprint(&b, "```\n\n")
	for _, plot := range PlotNames() {
		fmt.Fprintf(&b, "![%s](plots/%s)\n\n", strings.TrimSuffix(plot, ".svg"), plot)
	}
	fmt.Fprint(&b, docsEnd)
	return bytes.Join([][]byte{before, b.Bytes(), after}, nil), nil
}
