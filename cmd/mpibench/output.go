package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/mpibench/bench"
	"gobtl/internal/report"
)

// output writes measured values as text or JSON. In the JSON format each value is written at once.
// In the text format the table of a test is written when the test is complete.
type output struct {
	w       io.Writer
	json    bool
	pending []bench.Result // figures of the present test
	tables  int
}

func newOutput(w io.Writer, format string) *output { return &output{w: w, json: format == "json"} }

// show writes a value, or stores it for the table of its test.
func (o *output) show(r bench.Result) error {
	if o.json {
		return json.NewEncoder(o.w).Encode(r)
	}
	if len(o.pending) > 0 && o.pending[0].Test != r.Test {
		if err := o.flush(); err != nil {
			return err
		}
	}
	o.pending = append(o.pending, r)
	return nil
}

// flush writes the table of the present test.
func (o *output) flush() error {
	if len(o.pending) == 0 {
		return nil
	}
	first := o.pending[0]
	t := report.Table{Heads: [][]string{{"size", "ranks", "median", "p99", "min"}}}
	for _, r := range o.pending {
		t.Rows = append(t.Rows, []string{
			plan.SizeText(r.Size), strconv.Itoa(r.Ranks), figure(r.Median), figure(r.P99), figure(r.Min),
		})
	}
	space := "\n"
	if o.tables == 0 {
		space = ""
	}
	o.tables++
	o.pending = o.pending[:0]
	_, err := fmt.Fprintf(o.w, "%s%s: %s, %s\n%s", space, first.Test, bench.Title(first.Test),
		first.Unit, t.String())
	return err
}

// figure formats a figure without an exponent.
func figure(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
