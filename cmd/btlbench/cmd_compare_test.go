package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobtl/cmd/btlbench/compare"
	"gobtl/internal/testenv"
)

func TestCompareUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"compare --rounds 0", "--rounds must be"},
		{"compare --duration 0s", "--duration must be"},
		{"compare --limit 1ms", "--limit must be"},
		{"compare --cpus 0,1,2", "two are needed"},
		{"compare --system fi-pct", `no system "fi-pct"`},
		{"compare --system fi-tcp --update-docs no-such-file --out " + t.TempDir(), "no-such-file"},
	} {
		status, stdout, stderr := runCLI(strings.Fields(c.args)...)
		want := exitUsage
		if strings.Contains(c.args, "no-such-file") {
			want = exitFailure
		}
		if status != want || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("btlbench %s: status %d, %q, want %q\n%s", c.args, status, stderr, c.want, stdout)
		}
		checkOneLine(t, stderr)
	}
}

func TestCompareList(t *testing.T) {
	status, stdout, stderr := runCLI("compare", "--list")
	if status != exitOK || stderr != "" || strings.Count(stdout, "\n") < 10 ||
		!strings.Contains(stdout, "gobtl-ofi-udp ") {
		t.Errorf("status %d, %q\n%s", status, stderr, stdout)
	}
}

// quick runs a quick comparison, unpinned as other tests run beside it, and returns its report.
func quick(t *testing.T, limit string, systems ...string) (report *compare.Report, table string) {
	t.Helper()
	t.Setenv(envRunMain, "1") // the processes of the transport are this test binary
	dir := t.TempDir()
	docs := filepath.Join(dir, "performance.md")
	begin, end := "<!-- compare:begin -->\n", "<!-- compare:end -->\n"
	if err := os.WriteFile(docs, []byte("# Speed\n"+begin+end+"More.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	status, stdout, stderr := runCLI("compare", "--quick", "--cpus", "none", "--limit", limit,
		"--out", out, "--update-docs", docs, "--system", strings.Join(systems, ","))
	if status != exitOK {
		t.Fatalf("status %d\n%s\n%s", status, stderr, stdout)
	}
	data, err := os.ReadFile(filepath.Join(out, "compare.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(out, "compare.csv"))
	if err != nil || strings.Count(string(rows), "\n") != 1+len(report.Results) {
		t.Errorf("%d results, %v\n%s", len(report.Results), err, rows)
	}
	updated, err := os.ReadFile(docs)
	summary, _, _ := strings.Cut(stdout, "\nLatency: ")
	if err != nil || !strings.Contains(string(updated), summary) ||
		strings.Contains(string(updated), "\nLatency: ") ||
		!strings.HasSuffix(string(updated), end+"More.\n") {
		t.Errorf("%v\n%s", err, updated)
	}
	for _, name := range compare.PlotNames("network") {
		for _, in := range []string{out, filepath.Join(dir, "plots")} {
			svg, err := os.ReadFile(filepath.Join(in, name))
			if err != nil || !strings.Contains(string(svg), "<svg ") {
				t.Errorf("%s: %v\n%.100s", name, err, svg)
			}
		}
		if !strings.Contains(string(updated), "(plots/"+name+")") {
			t.Errorf("no link to %s\n%s", name, updated)
		}
	}
	return report, stdout
}

// points counts a system's results.
func points(report *compare.Report, id string) int {
	n := 0
	for _, r := range report.Results {
		if r.System == id && r.Median > 0 {
			n++
		}
	}
	return n
}

// TestCompareQuick compares the transport with fi_pingpong, which is there wherever its libfabric
// is measured.
func TestCompareQuick(t *testing.T) {
	notRaced(t)
	if providerPresent("ofi/udp") != nil && os.Getenv("CI") == "" {
		t.Skip("needs libfabric: install libfabric-dev")
	}
	testenv.Need(t, "fi_pingpong", "libfabric-bin")
	ours := []string{"gobtl-ofi-udp", "raw-ofi-udp"}
	if providerPresent("udp") == nil {
		ours = append(ours, "gobtl-udp-1500")
	}
	report, table := quick(t, "60s", append(slices.Clone(ours), "fi-tcp")...)
	for _, id := range ours {
		if n := points(report, id); n != 5 {
			t.Errorf("%s: %d points of 5\n%s", id, n, table)
		}
	}
	// Where other tests take the CPUs, a peer may time out; one over TCP loses nothing then.
	if points(report, "fi-tcp") != 2 {
		t.Errorf("fi-tcp: %d points of 2\n%s", points(report, "fi-tcp"), table)
	}
	if !strings.Contains(table, "left out: fi_pingpong tcp: stream, rate: ") {
		t.Errorf("the table does not say why figures are missing\n%s", table)
	}
}

// TestComparePeers runs what else is installed. Whatever else runs on this machine may keep a peer
// from finishing in time; then the report must say so.
func TestComparePeers(t *testing.T) {
	notRaced(t)
	peers := []string{"ucx-tcp", "mpi-tcp", "mpi-ucx", "mpi-rxd", "iperf3-tcp", "iperf3-udp"}
	report, table := quick(t, "5s", peers...)
	for i := range report.Systems {
		s := &report.Systems[i]
		failed := slices.ContainsFunc(report.Failures, func(f compare.Failure) bool {
			return f.System == s.ID && f.Message != ""
		})
		skipped := slices.ContainsFunc(report.Skipped, func(k compare.Skip) bool {
			return k.System == s.ID
		})
		n := points(report, s.ID)
		switch {
		case s.Missing != "":
			t.Logf("%s: %s; install %s", s.ID, s.Missing, s.Package)
			if n > 0 || s.Package == "" {
				t.Errorf("%+v has %d points", s, n)
			}
		case s.Version == "" || s.Version == "unknown":
			t.Errorf("%s: no version", s.ID)
		case n == 0 && !failed && !skipped:
			t.Errorf("%s: no points, and nobody says why\n%s", s.ID, table)
		}
	}
}
