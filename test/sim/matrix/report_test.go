package matrix

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

// sample is results of two profiles on the whole matrix, all different.
func sample() []Result {
	var all []Result
	for i, c := range Cells() {
		for k, p := range []string{"usnic", "adaptive"} {
			x := float64(2*i+k) / 1000
			all = append(all, Result{
				Profile: p, Cell: c, Goodput: 1e6 * x, Share: x, Resent: x / 2, Spurious: x / 3, Jain: 1 - x/2,
				PairShare: x, P50: c.RTT / 2, P99: c.RTT, P999: c.RTT * time.Duration(i+k+1),
			})
		}
	}
	return all
}

func TestOutputs(t *testing.T) {
	results := sample()
	data, err := JSON(results)
	if err != nil {
		t.Fatal(err)
	}
	var back []Result
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, results) {
		t.Errorf("JSON does not read back: %v", err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(CSV(results)))).ReadAll()
	if err != nil || len(rows) != len(results)+1 {
		t.Errorf("CSV has %d rows: %v", len(rows), err)
	}
	if got := strings.Join(rows[4], " "); got != "adaptive 50 100 0.25 0.001 0 0.024 0.003 0.0015 "+
		"0.001 0.9985 0.003 25 50 150 3" {
		t.Errorf("CSV's row 4: %s", got)
	}
	table := strings.Split(Table(results), "\n")
	if len(table) != 3+len(results)/2+1 {
		t.Errorf("the table has %d lines", len(table))
	}
	if got := strings.Join(strings.Fields(table[4]), " "); got != "50µs 100M 0.25 0.1% 0% 0.2% 0.3% "+
		"0.1% 0.1% 0.1% 0.1% 1.00 1.00 100us 150us" {
		t.Errorf("the table's row: %s", got)
	}
	if got := strings.Count(Summary(results), "\n"); got != 3+len(losses)*len(reorders) {
		t.Errorf("the summary has %d lines", got)
	}
}

func TestSpread(t *testing.T) {
	for i := range columns {
		col := &columns[i]
		got := spread(col, []float64{0.3, 0.1, 0.2})
		want := col.text(0.2) + "/" + col.text(0.3)
		if col.table == "goodput" || col.table == "Jain" {
			want = col.text(0.2) + "/" + col.text(0.1)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", col.name, got, want)
		}
	}
}

// TestMaps reads the maps as XML and counts the figures in their boxes.
func TestMaps(t *testing.T) {
	results := sample()
	rows, across := axes(results)
	for _, m := range Maps() {
		svg, err := m.SVG(results)
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(strings.NewReader(svg))
		texts := 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", m.File, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "text" {
				texts++
			}
		}
		const panels = 2
		// Titles of two lines, and the second lines of some columns, are texts, too.
		want := len(results) + panels*(len(rows)+len(across)+len(reorders)+2)
		if texts != want {
			t.Errorf("%s has %d texts, want %d", m.File, texts, want)
		}
	}
}

func TestUpdateDocs(t *testing.T) {
	const begin, end = "<!-- matrix:begin -->\n", "<!-- matrix:end -->"
	got, err := UpdateDocs([]byte("# A\n\n"+begin+"old\n"+end+"\nrest\n"), sample())
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if !strings.HasPrefix(text, "# A\n\n"+begin+"324 paths") || strings.Contains(text, "old") ||
		!strings.HasSuffix(text, end+"\nrest\n") ||
		!strings.Contains(text, "(plots/recovery-goodput.svg)") {
		t.Errorf("updated to %.300s ... %s", text, text[len(text)-100:])
	}
}
