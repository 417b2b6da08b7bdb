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

// TestMaps reads the maps as XML and counts the boxes.
func TestMaps(t *testing.T) {
	results := sample()
	for _, m := range Maps() {
		svg := m.SVG(results)
		d := xml.NewDecoder(strings.NewReader(svg))
		boxes := 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", m.File, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "g" {
				boxes++
			}
		}
		if boxes != len(results) {
			t.Errorf("%s has %d boxes of %d", m.File, boxes, len(results))
		}
	}
	if bad, _ := colour(-3); bad != "#440154" {
		t.Errorf("the worst colour is %s", bad)
	}
	if good, ink := colour(7); good != "#FDE725" || ink != "#000000" {
		t.Errorf("the best colour is %s, with %s on it", good, ink)
	}
}

func TestUpdateDocs(t *testing.T) {
	doc := "# A\n\n" + docsBegin + "\nold\n" + docsEnd + "\nrest\n"
	got, err := UpdateDocs([]byte(doc), sample(), "plots")
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if !strings.HasPrefix(text, "# A\n\n"+docsBegin+"\n324 paths") || strings.Contains(text, "old") ||
		!strings.HasSuffix(text, docsEnd+"\nrest\n") ||
		!strings.Contains(text, "(plots/recovery-goodput.svg)") {
		t.Errorf("updated to %.300s ... %s", text, text[len(text)-100:])
	}
	again, err := UpdateDocs(got, sample(), "plots")
	if err != nil || string(again) != text {
		t.Errorf("a second update changed it: %v", err)
	}
	if _, err := UpdateDocs([]byte("# A\n"), sample(), "plots"); err == nil {
		t.Error("a document without the lines was updated")
	}
}
