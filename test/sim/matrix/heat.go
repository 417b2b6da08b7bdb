package matrix

import (
	"math"
	"slices"
	"strings"

	"gobtl/internal/report"
)

// Map shows one value of all cells as colours, with a row for each path, a column for each rate of
// loss and reordering, and a panel for each profile.
type Map struct {
	File  string
	title string
	col   string                                 // name in columns
	shade func(r *Result, value float64) float64 // 0 is bad, 1 is good
}

// Maps lists the maps.
func Maps() []Map {
	linear := func(_ *Result, x float64) float64 { return x }
	fair := func(_ *Result, x float64) float64 { return 2*x - 1 }
	few := func(_ *Result, x float64) float64 { return 1 - x/0.2 }
	fewer := func(_ *Result, x float64) float64 { return 1 - x/0.05 }
	return []Map{
		{"recovery-goodput.svg", "Goodput of one stream, % of the path's capacity", "share", linear},
		{"recovery-latency.svg", "8-byte messages: p99.9 of the one-way times", "p999_us", late},
		{"recovery-jain.svg", "Two streams at one bottleneck: Jain's index", "jain", fair},
		{"recovery-resent.svg", "Retransmissions, % of the packets sent", "resent", few},
		{"recovery-spurious.svg", "Spurious retransmissions, % of the packets sent", "spurious", fewer},
	}
}

// late is 1 for a latency of half a round trip, and decreases by 1 with each doubling.
func late(r *Result, x float64) float64 { return 1 - math.Log2(2*x/us(r.RTT))/8 }

// SVG draws the map as SVG.
func (m *Map) SVG(results []Result) (string, error) {
	col := columns[slices.IndexFunc(columns, func(c column) bool { return c.name == m.col })]
	rows, across := axes(results)
	h := report.Heat{Title: m.title, Panels: profilesOf(results)}
	for _, row := range rows {
		h.Rows = append(h.Rows, row.line())
	}
	for i, c := range across {
		text := percent(c.Loss)
		if i == 0 || c.Reorder != across[i-1].Reorder {
			text += "\nreorder " + percent(c.Reorder)
		}
		h.Columns = append(h.Columns, text)
	}
	h.Box = func(panel, row, column int) (b report.Box, ok bool) {
		cell := rows[row]
		cell.Loss, cell.Reorder = across[column].Loss, across[column].Reorder
		r := find(results, cell, h.Panels[panel])
		if r == nil {
			return b, false
		}
		value := col.of(r)
		return report.Box{Shade: m.shade(r, value), Text: strings.TrimSuffix(col.text(value), "%")}, true
	}
	return h.SVG()
}

// axes returns one cell for each row and each column of a map.
func axes(results []Result) (rows, across []Cell) {
	rows = report.InOrder(results, func(r *Result) Cell {
		row := r.Cell
		row.Loss, row.Reorder = 0, 0
		return row
	})
	across = report.InOrder(results, func(r *Result) Cell {
		return Cell{Loss: r.Loss, Reorder: r.Reorder}
	})
	return rows, across
}
