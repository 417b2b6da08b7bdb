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

// output writes figures: lines of JSON as they come, or a table when its test is done.
type output struct {
	w       io.Writer
	json    bool
	pending []bench.Result // of one test
	tables  int
}

func newOutput(w io.Writer, format string) *output { return &output{w: w, json: format == "json"} }

// show takes a figure.
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

// flush writes the table that is not written yet.
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

// figure writes a figure of four digits, without an exponent.
func figure(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
