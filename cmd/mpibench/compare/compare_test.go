package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/systems"
	"gobtl/cmd/mpibench/bench"
	"gobtl/internal/testenv"
)

// The program in C is built by each MPI's compiler, and has a figure for all that is asked for.
func TestPeers(t *testing.T) {
	cfg := &Config{Each: time.Millisecond, Limit: time.Minute, CPUs: plan.CPUList{}}
	tests := []string{
		"latency", "bw", "mbw_mr", "barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall",
	}
	for _, s := range append(all(Programs{}, Quiet), floors(1500)...) {
		if s.compiler == "" {
			continue
		}
		tests := tests
		if s.launcher == "" { // a TCP connection has no more tests
			tests = tests[:2]
		}
		t.Run(s.name, func(t *testing.T) {
			for _, tool := range []string{s.compiler, cmp.Or(s.launcher, s.compiler)} {
				testenv.Need(t, tool, s.packages)
			}
			dir := t.TempDir()
			h := systems.NewHost(nil, cfg.Each, cfg.Limit, dir)
			if err := s.probe(t.Context(), h, dir); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(s.found, ".") {
				t.Errorf("version %q", s.found)
			}
			figures, err := s.measure(t.Context(), h, job{2, tests, []int{8, k}}, cfg)
			if err != nil {
				t.Error(err)
			}
			got := map[string]bool{}
			for _, f := range figures {
				ordered := f.Min <= f.Median && f.Median <= f.P99
				if f.Median <= 0 || !ordered || f.Ranks != 2 || f.Unit != unitOf(f.Test) {
					t.Errorf("%+v", f)
				}
				got[fmt.Sprint(f.Test, f.Size)] = true
			}
			for _, test := range tests {
				for _, size := range []int{8, k} {
					if test == "barrier" {
						size = 0
					}
					if !got[fmt.Sprint(test, size)] {
						t.Errorf("no %s of %d bytes in %v", test, size, figures)
					}
				}
			}
		})
	}
}

func unitOf(test string) string {
	switch test {
	case "bw":
		return "MB/s"
	case "mbw_mr":
		return "messages/s"
	}
	return "us"
}

// addRound adds the figures of a round, of all systems.
func addRound(r *Report, factor float64) {
	add := func(system, test string, ranks, size int, median float64) {
		r.add(system, []bench.Result{{
			Schema: bench.Schema, Test: test, Size: size, Ranks: ranks, Median: median * factor,
		}}, nil)
	}
	add(gobtl, "latency", 2, 8, 4.5)
	add(openMPI, "latency", 2, 8, 7)
	add(mpich, "latency", 2, 8, 8)
	add(btlOwn, "latency", 2, 8, 4)
	add(gobtl, "bw", 2, m, 4000)
	add(openMPI, "bw", 2, m, 3000)
	add(mpich, "bw", 2, m, 1000)
	add(btlOwn, "bw", 2, m, 5000)
	add(gobtl, "mbw_mr", 2, 8, 1e6)
	add(mpich, "mbw_mr", 2, 8, 1e5)
	add(gobtl, "allreduce", 8, 8, 130)
	add(openMPI, "allreduce", 8, 8, 100)
}

// Medians of the rounds, the better of the others, and what was reached.
func TestReport(t *testing.T) {
	r := &Report{Rounds: 3, Versions: map[string]string{openMPI: "4.1"}}
	for _, factor := range []float64{1, 3, .5} {
		addRound(r, factor)
	}
	r.add(mpich, nil, errors.New("it broke"))
	figures := r.Text()
	text := figures + r.Goals()
	for _, want := range []string{
		"latency        2     8        4.5         7       8  0.64     4\n",
		"bw             2    1M       4000      3000    1000  1.33  5000\n",
		"mbw_mr         2     8    1000000         -  100000 10.00     -\n",
		"latency of 8, 2 ranks: at most 1.15 of btl's own         1.12  yes\n",
		"latency of 8, 2 ranks: at most 1 of the better's         0.64  yes\n",
		"mbw_mr of 8, 2 ranks: at least 10 of the better's       10.00  yes\n",
		"bw of 1M, 2 ranks: at least 0.9 of btl's own             0.80  no\n",
		"barrier of 0, 2 ranks: at most 1 of the better's            -  not measured\n",
		"allreduce of 8, 8 ranks: at most 1.2 of the better's     1.30  no\n",
		"MPICH: it broke\n", "Open MPI 4.1",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "),
			strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	plots, err := r.Plots()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range PlotNames {
		if !strings.HasPrefix(plots[name], "<?xml") {
			t.Errorf("%s is no picture: %.40q", name, plots[name])
		}
	}
	const old = "a\n<!-- compare-mpi:begin -->\nold\n<!-- compare-mpi:end -->\nb\n"
	doc, err := r.UpdateDocs([]byte(old))
	if err != nil || strings.Contains(string(doc), "old") || !strings.Contains(string(doc), figures) {
		t.Errorf("%v\n%s", err, doc)
	}
	busyReport(t)
	var b strings.Builder
	var back Report
	if err := r.WriteJSON(&b); err != nil || json.Unmarshal([]byte(b.String()), &back) != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if got := back.value(gobtl, Point{"latency", 8, 2}); got != 4.5 {
		t.Errorf("read back the latency is %v", got)
	}
}

// busyReport checks the report of figures that were measured beside neighbours.
func busyReport(t *testing.T) {
	t.Helper()
	r := &Report{Rounds: 1, Versions: map[string]string{openMPI: "4.1"}, Beside: Sessions}
	for system, median := range map[string]float64{
		gobtl: 5, gobtlEvent: 10, openMPI: 4, tcpWait: 16, tcpPoll: 3,
	} {
		r.add(system, []bench.Result{{
			Schema: bench.Schema, Test: "latency", Size: 8, Ranks: 2, Median: median,
		}}, nil)
	}
	text := r.Text()
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"Competing load: one endless loop per CPU, in a session of its own. ", "gobtl event",
		"latency 2 8 5 4 - 1.25 10 16 3",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if goals := r.Goals(); goals != "" {
		t.Errorf("goals are those of a quiet machine:\n%s", goals)
	}
	doc, err := r.UpdateDocs([]byte("<!-- busy-sessions:begin -->\n<!-- busy-sessions:end -->\n"))
	if err != nil || !strings.Contains(string(doc), "with `make busy`") {
		t.Errorf("%v\n%s", err, doc)
	}
	plots, err := r.Plots()
	if err != nil || len(plots) != 0 {
		t.Errorf("%d plots, %v", len(plots), err)
	}
}

// TestWrap checks that all of a job is started beside the neighbours.
func TestWrap(t *testing.T) {
	cfg := &Config{
		Programs: Programs{Mpibench: "mpibench", Btlrun: "btlrun"}, CPUs: plan.CPUList{0, 1},
		Each: time.Second, Beside: Loops,
	}
	for _, s := range all(cfg.Programs, cfg.Beside) {
		name, args := s.line(besideJobs()[0], cfg)
		line := strings.Join(append([]string{name}, args...), " ")
		first := s.launcher
		if first == "" {
			first = s.program
		}
		if !strings.HasPrefix(line, "mpibench beside loops 0,1 "+first+" ") ||
			strings.Contains(line, "--wait event") != (s.name == gobtlEvent) {
			t.Errorf("%s: %s", s.name, line)
		}
	}
}
