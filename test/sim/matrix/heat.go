package matrix

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Map is a figure of all cells as colours: a row for each path, a column for each rate of loss and
// reordering, a panel for each profile.
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
		{"recovery-goodput.svg", "Goodput of one stream, % of what the path takes", "share", linear},
		{"recovery-latency.svg", "8-byte messages: 99.9 % are under way no longer than", "p999_us", late},
		{"recovery-jain.svg", "Two streams at one bottleneck: Jain's index", "jain", fair},
		{"recovery-resent.svg", "Packets sent again, % of those sent", "resent", few},
		{"recovery-spurious.svg", "Packets that arrived again, % of those sent", "spurious", fewer},
	}
}

// late is 1 for a latency of half a round trip, less for each time that it doubles.
func late(r *Result, x float64) float64 { return 1 - math.Log2(2*x/us(r.RTT))/8 }

// Sizes of a map in pixels.
const (
	boxWidth, boxHeight = 38, 17
	labelWidth          = 142
	panelGap            = 24
	mapTop              = 84
	groupGap            = 4 // between round-trip times, and between rates of reordering
)

// SVG draws the map.
func (m *Map) SVG(results []Result) string {
	profiles := profilesOf(results)
	rows, across := axes(results)
	panel := len(across)*boxWidth + len(reorders)*groupGap
	width := labelWidth + len(profiles)*(panel+panelGap)
	height := mapTop + len(rows)*boxHeight + len(rtts)*groupGap + 16
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" `+
		`height="%d" font-family="DejaVu Sans, Verdana, sans-serif" font-size="10">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#FFFFFF"/>`+"\n", width, height)
	text(&b, 8, 24, "start", 16, "#000000", m.title)
	for n, p := range profiles {
		left := labelWidth + n*(panel+panelGap)
		text(&b, left, 46, "start", 13, "#000000", p)
		for i := range across {
			x := left + place(across, i, boxWidth, func(c Cell) any { return c.Reorder })
			text(&b, x+boxWidth/2, mapTop-7, "middle", 10, "#000000", percent(across[i].Loss))
			if i == 0 || across[i].Reorder != across[i-1].Reorder {
				text(&b, x, mapTop-22, "start", 10, "#000000",
					"reorder "+percent(across[i].Reorder)+", loss:")
			}
		}
		for i, row := range rows {
			y := mapTop + place(rows, i, boxHeight, func(c Cell) any { return c.RTT })
			if n == 0 {
				text(&b, labelWidth-8, y+boxHeight-5, "end", 10, "#000000", row.line())
			}
			for k, c := range across {
				x := left + place(across, k, boxWidth, func(c Cell) any { return c.Reorder })
				row.Loss, row.Reorder = c.Loss, c.Reorder
				if r := find(results, row, p); r != nil {
					m.box(&b, x, y, r)
				}
			}
		}
	}
	return b.String() + "</svg>\n"
}

// axes returns a cell for each row and each column of a map.
func axes(results []Result) (rows, across []Cell) {
	for i := range results {
		row, col := results[i].Cell, Cell{Loss: results[i].Loss, Reorder: results[i].Reorder}
		row.Loss, row.Reorder = 0, 0
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if !slices.Contains(across, col) {
			across = append(across, col)
		}
	}
	return rows, across
}

// place is where the box of a row or column begins: there is a gap where the group changes.
func place(cells []Cell, i, size int, group func(Cell) any) int {
	at := i * size
	for k := 1; k <= i; k++ {
		if group(cells[k]) != group(cells[k-1]) {
			at += groupGap
		}
	}
	return at
}

// box draws one value. Its title, which browsers show, is all that is known of the cell.
func (m *Map) box(b *strings.Builder, x, y int, r *Result) {
	col := columns[slices.IndexFunc(columns, func(c column) bool { return c.name == m.col })]
	value := col.of(r)
	fill, ink := colour(m.shade(r, value))
	fmt.Fprintf(b, `<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`,
		r.Text(), x, y, boxWidth-1, boxHeight-1, fill)
	text(b, x+boxWidth/2, y+boxHeight-5, "middle", 9, ink, strings.TrimSuffix(col.text(value), "%"))
	b.WriteString("</g>\n")
}

// colours runs from bad to good; in grey, too, good is lighter.
var colours = [][3]float64{
	{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37},
}

// colour returns the colour of a value between 0 and 1, and that of text on it.
func colour(x float64) (fill, ink string) {
	x = min(max(x, 0), 1) * float64(len(colours)-1)
	i := min(int(x), len(colours)-2)
	var c [3]int
	for k := range c {
		c[k] = int(math.Round(colours[i][k] + (x-float64(i))*(colours[i+1][k]-colours[i][k])))
	}
	ink = "#FFFFFF"
	if x > 2.2 {
		ink = "#000000"
	}
	return fmt.Sprintf("#%02X%02X%02X", c[0], c[1], c[2]), ink
}

func text(b *strings.Builder, x, y int, anchor string, size int, fill, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" font-size="%d" fill="%s">%s</text>`+"\n",
		x, y, anchor, size, fill, s)
}
