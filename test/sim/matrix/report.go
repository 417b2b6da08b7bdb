package matrix

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/internal/report"
)

// column is a value of a Result.
type column struct {
	name    string // in the CSV's first line, with its unit
	table   string // above a column of the table; empty: not there
	summary string // the same of the summary
	of      func(r *Result) float64
	text    func(x float64) string
}

// columns lists the values of all outputs.
var columns = []column{
	{"goodput_mbit", "", "", func(r *Result) float64 { return r.Goodput * 8 / 1e6 }, decimals(3)},
	{"share", "goodput", "goodput", func(r *Result) float64 { return r.Share }, percents},
	{"resent", "resent", "resent", func(r *Result) float64 { return r.Resent }, percents},
	{"spurious", "spurious", "spurious", func(r *Result) float64 { return r.Spurious }, percents},
	{"jain", "Jain", "Jain", func(r *Result) float64 { return r.Jain }, decimals(2)},
	{"pair_share", "", "", func(r *Result) float64 { return r.PairShare }, percents},
	{"p50_us", "", "", func(r *Result) float64 { return us(r.P50) }, micros},
	{"p99_us", "", "", func(r *Result) float64 { return us(r.P99) }, micros},
	{"p999_us", "p99.9", "", func(r *Result) float64 { return us(r.P999) }, micros},
	{"p999_rtt", "", "p99.9, RTTs", roundTrips, decimals(1)},
}

func roundTrips(r *Result) float64 { return us(r.P999) / us(r.RTT) }

// inTable and inSummary are a column's titles.
func inTable(c *column) string   { return c.table }
func inSummary(c *column) string { return c.summary }

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func decimals(n int) func(float64) string {
	return func(x float64) string { return strconv.FormatFloat(x, 'f', n, 64) }
}

func percents(x float64) string {
	switch {
	case x == 0:
		return "0%"
	case x < 0.0995:
		return decimals(1)(100*x) + "%"
	}
	return decimals(0)(100*x) + "%"
}

// micros formats microseconds with a suitable unit, such as 25us, 1.3ms or 0.1s.
func micros(x float64) string {
	switch {
	case x < 999.5:
		return decimals(0)(x) + "us"
	case x < 9.95e3:
		return decimals(1)(x/1e3) + "ms"
	case x < 999.5e3:
		return decimals(0)(x/1e3) + "ms"
	}
	return decimals(1)(x/1e6) + "s"
}

// profilesOf lists the profiles of the results in the order of their first result.
func profilesOf(results []Result) []string {
	return report.InOrder(results, func(r *Result) string { return r.Profile })
}

// find returns the result of a profile on a cell, or nil.
func find(results []Result, c Cell, profile string) *Result {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Cell == c && r.Profile == profile })
	if i < 0 {
		return nil
	}
	return &results[i]
}

// JSON writes the results for programs.
func JSON(results []Result) ([]byte, error) { return json.MarshalIndent(results, "", "  ") }

// CSV writes the results as CSV, with a line for each cell and profile.
func CSV(results []Result) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	head := append(make([]string, 0, 6+len(columns)), "profile", "rtt_us", "mbit", "queue_bdp", "loss",
		"reorder")
	for _, col := range columns {
		head = append(head, col.name)
	}
	_ = w.Write(head) // a bytes.Buffer takes everything
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for i := range results {
		r := &results[i]
		line := append(make([]string, 0, len(head)), r.Profile, number(us(r.RTT)),
			number(float64(r.BitsPerSecond)/1e6), number(r.QueueBDP), number(r.Loss), number(r.Reorder))
		for _, col := range columns {
			line = append(line, number(col.of(r)))
		}
		_ = w.Write(line)
	}
	w.Flush()
	return b.Bytes()
}

// Table writes the results as text, with a line for each cell and a group of columns for each
// profile.
func Table(results []Result) string {
	profiles := profilesOf(results)
	t := report.Table{Heads: heads(inTable, profiles, "rtt", "rate", "queue", "loss", "reorder")}
	for i := range results {
		if results[i].Profile != profiles[0] {
			continue
		}
		c := results[i].Cell
		row := []string{
			c.RTT.String(), bits(c.BitsPerSecond), fmt.Sprint(c.QueueBDP), percent(c.Loss),
			percent(c.Reorder),
		}
		t.Rows = append(t.Rows, cells(inTable, profiles, row, func(col *column, profile string) string {
			if r := find(results, c, profile); r != nil {
				return col.text(col.of(r))
			}
			return "-"
		}))
	}
	return t.String()
}

// cells appends the cells of a row, one for each titled column and each profile.
func cells(title func(*column) string, profiles, row []string, text func(*column, string) string,
) []string {
	for i := range columns {
		for _, p := range profiles {
			if title(&columns[i]) != "" {
				row = append(row, text(&columns[i], p))
			}
		}
	}
	return row
}

// heads returns the two header rows of a table, with the values and the profiles.
func heads(title func(*column) string, profiles []string, names ...string) [][]string {
	first := cells(title, profiles, make([]string, len(names)), func(col *column, p string) string {
		if p == profiles[0] {
			return title(col)
		}
		return ""
	})
	second := cells(title, profiles, names, func(_ *column, p string) string { return p })
	return [][]string{first, second}
}

// Summary writes, for each rate of loss and reordering, the median and the worst value of all
// paths.
func Summary(results []Result) string {
	profiles := profilesOf(results)
	t := report.Table{Heads: heads(inSummary, profiles, "loss", "reorder")}
	for _, reorder := range reorders {
		for _, loss := range losses {
			row := []string{percent(loss), percent(reorder)}
			figures := func(col *column, profile string) string {
				var all []float64
				for i := range results {
					if r := &results[i]; r.Profile == profile && r.Loss == loss && r.Reorder == reorder {
						all = append(all, col.of(r))
					}
				}
				return spread(col, all)
			}
			t.Rows = append(t.Rows, cells(inSummary, profiles, row, figures))
		}
	}
	return t.String()
}

// spread writes the median and the worst value, which is the smallest for goodput and fairness, and
// the greatest for everything else.
func spread(col *column, all []float64) string {
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	worst := all[len(all)-1]
	if col.table == "goodput" || col.table == "Jain" {
		worst = all[0]
	}
	return col.text(all[len(all)/2]) + "/" + col.text(worst)
}

// UpdateDocs returns a document in which the summary, with links to the maps, replaces the text
// between the lines "matrix:begin" and "matrix:end".
func UpdateDocs(doc []byte, results []Result) ([]byte, error) {
	var plots strings.Builder
	for _, m := range Maps() {
		fmt.Fprintf(&plots, "![%s](%s)\n\n", m.title, report.PlotPath(m.File))
	}
	return report.Between(doc, "matrix", fmt.Sprintf("%d paths. Each figure is "+
		"median/worst of the paths with this rate of loss and of reordering.\n\n```text\n%s```\n\n%s",
		len(results)/max(1, len(profilesOf(results))), Summary(results), plots.String()))
}
