package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlbench/systems"
	"gobtl/internal/report"
)

// sampleReport is a report as a whole run makes it, with plausible values: perMessage and
// bytesPerUs make up each system's.
func sampleReport(t *testing.T) *Report {
	t.Helper()
	cfg := &Config{
		Rounds: 3, Each: time.Second, CPUs: []int{0, 1},
		Machine: report.Machine{CPUModel: "A CPU", CPUs: 2, Kernel: "6.1", OS: "linux", Version: "v1"},
	}
	c := &comparison{
		cfg: cfg, points: systems.Points(false), report: newReport(cfg), host: &systems.Host{},
		values: map[valueKey]*Result{}, skipped: map[valueKey]bool{}, failed: map[failKey]int{},
	}
	for i, s := range systems.All(systems.Network, systems.Program{}) {
		about := *s.Info()
		about.Version = "1." + strconv.Itoa(i)
		if about.ID == "ucx-tcp" {
			about.Missing, about.Version = "ucx_perftest is not installed", ""
			c.report.Systems = append(c.report.Systems, about)
			continue
		}
		f := &fake{about: about, skip: map[systems.Point]string{}}
		perMessage, bytesPerUs := 2.5+float64(i)/2, 500*float64(1+i%5)
		f.value = func(round int, p systems.Point) (float64, error) {
			us := (perMessage + float64(p.SizeBytes)/bytesPerUs) * (1 + float64(round)/100)
			switch p.Workload {
			case systems.Latency:
				return us, nil
			case systems.Stream:
				return float64(p.SizeBytes) / (us/4 + float64(p.SizeBytes)/2/bytesPerUs), nil
			default:
				return 1e6 / us * math.Sqrt(float64(p.Window)), nil
			}
		}
		for _, p := range c.points {
			if reason := s.Cannot(p); reason != "" {
				f.skip[p] = reason
			}
		}
		c.systems = append(c.systems, f)
		c.report.Systems = append(c.report.Systems, about)
	}
	if err := c.complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.report.Failures = append(c.report.Failures, Failure{
		System: "mpi-rxd", Workload: systems.Stream, Round: 2, Message: "exit status 1: " +
			strings.Repeat("a long complaint of mpirun's ", 10),
	})
	c.report.finish()
	return c.report
}

func TestTable(t *testing.T) {
	table := sampleReport(t).Text()
	for line := range strings.Lines(table) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > report.WrapColumns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"\nnot measured: UCX tcp: ucx_perftest is not installed (Debian: ucx-utils)\n",
		"\nleft out: fi_pingpong udp: latency of 4K, 16K, 64K, 256K, 1M: larger than one datagram",
		"\nleft out: fi_pingpong tcp; fi_pingpong udp;ofi_rxd; fi_pingpong udp: stream, rate: fi_",
		"\nfailed: Open MPI mtl/ofi rxd, stream, round 2: exit status 1: a long complaint",
		"\ngobtl udp: 1.0\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if t.Failed() {
		return
	}
	// The summary's line of the transport: label, three medians with their ratios.
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "gobtl" {
			if want := 2 + 10; len(fields) != want {
				t.Errorf("%d fields, want %d: %s", len(fields), want, line)
			}
			return
		}
	}
	t.Error("no summary of the transport")
}

func TestJSON(t *testing.T) {
	sample := sampleReport(t)
	var b bytes.Buffer
	if err := sample.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema  string `json:"schema"`
		Results []struct {
			System   string   `json:"system"`
			Workload string   `json:"workload"`
			Size     int      `json:"size_bytes"`
			Ratio    *float64 `json:"ratio_to_best_peer"`
			Rounds   []struct {
				Value float64 `json:"value"`
			} `json:"rounds"`
		} `json:"results"`
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != Schema || len(doc.Results) != len(sample.Results) {
		t.Errorf("schema %q, %d results", doc.Schema, len(doc.Results))
	}
	for _, r := range doc.Results {
		if len(r.Rounds) != 3 || r.Ratio == nil || r.Rounds[0].Value <= 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestCSV(t *testing.T) {
	sample := sampleReport(t)
	var b bytes.Buffer
	if err := sample.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 1+3*len(sample.Results) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		if x, err := strconv.ParseFloat(row[10], 64); err != nil || x <= 0 || row[2] != "6.1" ||
			!strings.HasPrefix(row[5], "1.") {
			t.Errorf("%q", row)
		}
	}
}

// TestPlots holds that plots are XML without a number that is none, and have a line for each system
// that was measured.
func TestPlots(t *testing.T) {
	sample := sampleReport(t)
	sample.Systems[0].Label = "a < b & c"
	plots, err := sample.Plots()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range PlotNames(systems.Network) {
		svg := plots[name]
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s has numbers that are none", name)
		}
		texts, err := xmlTexts(svg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for j := range sample.Systems {
			about := &sample.Systems[j]
			measured := false
			for _, r := range sample.Results {
				measured = measured || r.System == about.ID && r.Workload == systems.Workloads[i]
			}
			if drawn := texts[about.Label]; drawn != measured {
				t.Errorf("%s: %s: drawn %v, measured %v", name, about.Label, drawn, measured)
			}
		}
	}
	empty := newReport(&Config{})
	plots, err = empty.Plots()
	if err != nil {
		t.Fatal(err)
	}
	for name, svg := range plots {
		if texts, err := xmlTexts(svg); err != nil || !texts["nothing was measured"] {
			t.Errorf("%s of nothing: %v\n%s", name, err, svg)
		}
	}
}

// xmlTexts returns the texts of an XML document's text elements.
func xmlTexts(doc string) (map[string]bool, error) {
	texts := map[string]bool{}
	d := xml.NewDecoder(strings.NewReader(doc))
	inText := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				texts[string(token)] = true
			}
		}
	}
}

func TestUpdateDocs(t *testing.T) {
	sample := sampleReport(t)
	const before, begin, end = "# Title\n\n", "<!-- compare:begin -->\n", "<!-- compare:end -->"
	first, err := sample.UpdateDocs([]byte(before + begin + "old\n" + end + "\n\nmore\n"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(first)
	if !strings.HasPrefix(text, before+begin) || !strings.HasSuffix(text, "\n"+end+"\n\nmore\n") ||
		strings.Contains(text, "old") || !strings.Contains(text, "![latency](plots/latency.svg)") ||
		!strings.Contains(text, "A CPU") {
		t.Error(text)
	}
}
