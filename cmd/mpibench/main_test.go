package main

import (
	"bytes"
	"strings"
	"testing"

	"gobtl/cmd/mpibench/bench"
)

// What is wrong on the command line is said in one line, and measured is nothing.
func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		args   string
		status int
		want   string
	}{
		{"--test lat", exitUsage, `unknown test "lat"`},
		{"--test latencie", exitUsage, `did you mean "latency"?`},
		{"--size 8,x", exitUsage, `"x" is no size`},
		{"--ranks 1", exitUsage, "--ranks: 1, want 2 or more"},
		{"--size -1", exitUsage, "--size must not be negative: -1 ("},
		{"--duration 0", exitUsage, "--duration must be more than 0"},
		{"--window 0", exitUsage, "--window must be 1 to 4096"},
		{"--threads 0", exitUsage, "--threads must be 1 to 1024"},
		{"--duration 0s", exitUsage, "--duration must be more than 0"},
		{"--limit 0s", exitUsage, "--limit must be positive"},
		{"--format xml", exitUsage, "--format"},
		{"compare --beside cats", exitUsage, "--beside must be one of"},
		{"compare --rounds 0", exitUsage, "--rounds must be 1 to 1000"},
		{"compare --duration 1us", exitUsage, "--duration must be 1ms to 1m"},
		{"compare --layers", exitUsage, "--layers needs --beside"},
		{"compare --limit 1ms", exitUsage, "--limit must be 1s or more"},
		{"compare --programs /nowhere", exitUsage, "--programs: stat /nowhere/btlrun"},
		{"--provider nothing", exitFailure, "nothing"},
		{"", exitUsage, "one rank has nobody to measure with"},
	} {
		t.Setenv("BTL_LAUNCHER", "none")
		var stdout, stderr bytes.Buffer
		status := run(strings.Fields(tc.args), &stdout, &stderr)
		text := stderr.String()
		if status != tc.status || !strings.Contains(text, tc.want) || stdout.Len() > 0 ||
			strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "mpibench: ") {
			t.Errorf("mpibench %s: status %d\n%s%s", tc.args, status, &stdout, text)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"--help", "measure --help", "compare --help"} {
		var stdout, stderr bytes.Buffer
		if status := run(strings.Fields(args), &stdout, &stderr); status != exitOK ||
			!strings.HasPrefix(stdout.String(), "Usage: mpibench") || stderr.Len() > 0 {
			t.Errorf("mpibench %s: status %d\n%s%s", args, status, &stdout, &stderr)
		}
	}
}

// A table for each test when it is done; JSON as the figures come.
func TestOutput(t *testing.T) {
	results := []bench.Result{
		{
			Schema: bench.Schema, Test: "latency", Size: 8, Ranks: 2, Unit: "us",
			Median: 4.567, P99: 17.23, Min: 3.93,
		},
		{
			Schema: bench.Schema, Test: "latency", Size: 1 << 20, Ranks: 2, Unit: "us",
			Median: 200, P99: 300, Min: 100,
		},
		{
			Schema: bench.Schema, Test: "mbw_mr", Size: 8, Ranks: 4, Unit: "messages/s",
			Median: 12340000, P99: 2e7, Min: 1e6,
		},
	}
	const table = `latency: Latency: ping-pong, half round trips, us
size  ranks  median    p99   min
────────────────────────────────
   8      2   4.567  17.23  3.93
  1M      2     200    300   100

mbw_mr: Messages of all pairs together: windows, each answered, messages/s
size  ranks    median       p99      min
────────────────────────────────────────
   8      4  12340000  20000000  1000000
`
	//nolint:lll // lines of JSON
	const lines = `{"schema":"gobtl-mpibench/1","test":"latency","size":8,"ranks":2,"unit":"us","median":4.567,"p99":17.23,"min":3.93}
{"schema":"gobtl-mpibench/1","test":"latency","size":1048576,"ranks":2,"unit":"us","median":200,"p99":300,"min":100}
{"schema":"gobtl-mpibench/1","test":"mbw_mr","size":8,"ranks":4,"unit":"messages/s","median":12340000,"p99":20000000,"min":1000000}
`
	for format, want := range map[string]string{"text": table, "json": lines} {
		var b bytes.Buffer
		out := newOutput(&b, format)
		for _, r := range results {
			if err := out.show(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.flush(); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", format, err, &b, want)
		}
	}
}
