package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFigures(t *testing.T) {
	for _, c := range []struct {
		all  []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		before := slices.Clone(c.all)
		if got := Median(c.all); got != c.want || !slices.Equal(c.all, before) {
			t.Errorf("median of %v: %v, want %v", before, got, c.want)
		}
	}
	if got := Decimals(2.34567, 3); got != 2.346 {
		t.Errorf("three decimals: %v", got)
	}
	if got := Significant(123456); got != 123500 {
		t.Errorf("four digits: %v", got)
	}
	for x, want := range map[float64]string{
		0: "0", 0.1234: "0.12", 16.7: "17", 100: "100", 999: "999", 1500: "1.5k",
		206076: "206k", 2e6: "2M",
	} {
		if got := Short(x); got != want {
			t.Errorf("%v is written %q, want %q", x, got, want)
		}
	}
	odd := InOrder([]int{3, 1, 3, 2}, func(n *int) bool { return *n%2 == 1 })
	if !slices.Equal(odd, []bool{true, false}) {
		t.Errorf("in order: %v", odd)
	}
}

func TestThisMachine(t *testing.T) {
	m := ThisMachine()
	for _, text := range []string{m.CPUModel, m.Kernel, m.OS, m.Arch, m.Go, m.Version} {
		if text == "" || strings.Contains(text, "\n") {
			t.Errorf("%+v", m)
		}
	}
	if m.CPUs < 1 {
		t.Errorf("%d CPUs", m.CPUs)
	}
}

func TestTable(t *testing.T) {
	table := Table{
		Heads: [][]string{{"", "", "us"}, {"system", "n", "usnic"}},
		Rows:  [][]string{{"a", "100", "1"}, {"longer", "2", "é3"}},
		Left:  []int{0},
	}
	want := "                 us\nsystem    n  usnic\n" + strings.Repeat("─", 18) +
		"\na       100      1\nlonger    2     é3\n"
	want = strings.Replace(want, "                 us", "                us", 1)
	if got := table.String(); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	if got := Columns(want); got != 18 {
		t.Errorf("%d columns", got)
	}
}

func TestWrap(t *testing.T) {
	text := Wrap(strings.Repeat("word  \n", 60))
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[1], "  word") ||
		len(strings.Fields(text)) != 60 {
		t.Errorf("%q", text)
	}
	for _, line := range lines {
		if len(line) > WrapColumns {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestBetween(t *testing.T) {
	const begin, end = "<!-- x:begin -->\n", "<!-- x:end -->"
	doc := "# A\n" + begin + "old\n" + end + "\nrest\n"
	first, err := Between([]byte(doc), "x", "new\n")
	if want := strings.Replace(doc, "old", "new", 1); err != nil || string(first) != want {
		t.Errorf("%q, %v", first, err)
	}
	if second, err := Between(first, "x", "new\n"); err != nil || !slices.Equal(first, second) {
		t.Errorf("a second time it is different: %v\n%s", err, second)
	}
	for _, bad := range []string{"", begin, end + begin, strings.ReplaceAll(doc, "x:", "y:")} {
		if _, err := Between([]byte(bad), "x", ""); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	if got := Links([]string{PlotPath("a.svg")}); got != "![a](plots/a.svg)\n\n" {
		t.Errorf("link %q", got)
	}
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	b, a := filepath.Join(dir, "new", "b"), filepath.Join(dir, "a")
	names, err := WriteFiles(map[string][]byte{b: []byte("2"), a: []byte("1")})
	if err != nil || !slices.Equal(names, []string{a, b}) {
		t.Errorf("%v, %v", names, err)
	}
	if data, err := os.ReadFile(b); err != nil || string(data) != "2" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := WriteFiles(map[string][]byte{filepath.Join(a, "c"): nil}); err == nil {
		t.Error("a file below a file")
	}
}

// texts returns the text elements of a plot. The plot must be XML with valid numbers.
func texts(t *testing.T, svg string, err error) (list []string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("numbers that are none in\n%s", svg)
	}
	inText := false
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				list = append(list, string(token))
			}
		}
	}
}

func wantTexts(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !slices.Contains(got, text) {
			t.Errorf("no text %q among %q", text, got)
		}
	}
}

func TestLines(t *testing.T) {
	l := Lines{
		Title: "Title", XTitle: "bytes", YTitle: "us", XFactor: 8, XText: Short,
		Series: []Line{
			{
				Label: "a < b & c", Color: Blue, Width: 2, Mark: Circle,
				X: []float64{8, 64}, Y: []float64{3, 30},
			},
			{Label: "one", Color: Grey, Width: 1, Dashes: []float64{4, 3}, X: []float64{8}, Y: []float64{5}},
			{Label: "absent", Color: Black, Width: 1},
		},
	}
	svg, err := l.SVG()
	got := texts(t, svg, err)
	wantTexts(t, got, "Title", "bytes", "us", "8", "64", "10", "20", "a < b & c", "one")
	if slices.Contains(got, "absent") {
		t.Error("the legend has a line without points")
	}
	l.Series = l.Series[2:]
	svg, err = l.SVG()
	wantTexts(t, texts(t, svg, err), "nothing was measured")
}

func TestBars(t *testing.T) {
	b := Bars{
		Title: "Title", Unit: "us", Groups: []string{"g1", "g2"}, Log: true, Low: 10, High: 1e4, Step: 10,
		Series: []Bar{
			{Label: "s1", Color: Blue, Values: []float64{17, math.NaN()}},
			{Label: "s2", Color: Green, Values: []float64{1, 5e6}},
		},
	}
	svg, err := b.SVG()
	wantTexts(t, texts(t, svg, err), "Title", "us", "g1", "g2", "s1", "s2", "17", "-", "1", "5M",
		"100", "1k", "10k")
	b.Log, b.Low, b.High, b.Step = false, 0, 120, 20
	svg, err = b.SVG()
	wantTexts(t, texts(t, svg, err), "0", "20", "120", "17")
	svg, err = (&Bars{Title: "Title"}).SVG()
	wantTexts(t, texts(t, svg, err), "nothing was measured")
	for v, want := range map[float64]float64{-5: 0, 60: 60, 500: 120} {
		if got := b.at(v); got != want {
			t.Errorf("the bar of %v is as high as %v", v, got)
		}
	}
}

func TestHeat(t *testing.T) {
	h := Heat{
		Title: "Title", Panels: []string{"p1", "p2"}, Rows: []string{"r1", "r2"},
		Columns: []string{"c1"},
		Box: func(panel, row, _ int) (Box, bool) {
			return Box{Shade: float64(3 * panel), Text: "v" + string(rune('0'+2*panel+row))},
				panel+row < 2
		},
	}
	svg, err := h.SVG()
	got := texts(t, svg, err)
	wantTexts(t, got, "Title", "p1", "p2", "r1", "r2", "c1", "v0", "v1", "v2")
	if slices.Contains(got, "v3") {
		t.Error("a box that is not there has a text")
	}
	for _, fill := range []string{"#440154", "#FDE725"} {
		if !strings.Contains(svg, fill) {
			t.Errorf("no box of %s", fill)
		}
	}
	// The first row is on top, but gonum's row 0 is the lowest.
	h.Box = func(_, row, _ int) (Box, bool) { return Box{Shade: float64(row)}, true }
	if top := (&heatPanel{&h, 0}).Z(0, 1); top != 0 {
		t.Errorf("the upper row has the shade %v", top)
	}
}
