package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gobtl/internal/report"
)

// workload is a named kind of load, and how its results are shown.
type workload struct {
	load
	title string
	rate  bool // calls a second, not the time of one
}

func workloads(each time.Duration) []workload {
	const idleGap, idleCalls = 20 * time.Millisecond, 30
	return []workload{
		{load{1, 8, 0, each}, "8 B, one caller", false},
		{load{1, 8, idleGap, max(each, idleCalls*idleGap)}, "8 B, a call every 20 ms", false},
		{load{256, 8, 0, each}, "8 B, 256 callers", true},
		{load{1, 64 << 10, 0, each}, "64 KiB, one caller", false},
		{load{1, 1 << 20, 0, each}, "1 MiB, one caller", false},
	}
}

//nolint:lll // A struct tag cannot be broken.
type compareCmd struct {
	Rounds     int           `help:"Times that everything is measured; medians are shown." default:"5"`
	Duration   time.Duration `help:"Time for each figure in each round." default:"300ms"`
	System     []string      `help:"Only these systems."`
	Floor      bool          `help:"Beside them what bare UDP sockets of Go do, without sending again."`
	Load       []string      `help:"Only workloads whose titles begin so."`
	Pinned     bool          `help:"Server and caller have a CPU each." default:"true" negatable:""`
	UpdateDocs []string      `help:"Files to rewrite between calls:begin and calls:end." type:"path"`
}

// key identifies one cell of the table.
type key struct {
	workload int
	system   string
}

// Run is called by kong.
func (c *compareCmd) Run() error {
	list, err := c.systems()
	if err != nil {
		return err
	}
	if c.Rounds < 1 || c.Duration < time.Millisecond {
		return errors.New("--rounds must be 1 or more, --duration 1ms or more")
	}
	work := c.workloads()
	var cpus pins
	if c.Pinned {
		if cpus, err = choosePins(); err != nil {
			return err
		}
	}
	cells := map[key][]result{}
	bar := report.NewProgress(os.Stderr, c.Rounds*len(work)*len(list))
	for round := range c.Rounds {
		for w := range work {
			for i := range list {
				s := list[(i+round)%len(list)] // who begins is another one each time
				bar.Begin(work[w].title + ": " + s.title)
				res, err := measure(s, &work[w].load, cpus)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", s.title, work[w].title, err)
				}
				cells[key{w, s.name}] = append(cells[key{w, s.name}], res)
				bar.Step()
			}
		}
	}
	bar.Finish()
	text := table(list, work, cells, c.Rounds)
	fmt.Print(text)
	return c.updateDocs(text)
}

// workloads returns the requested workloads.
func (c *compareCmd) workloads() (list []workload) {
	for _, w := range workloads(c.Duration) {
		asked := len(c.Load) == 0
		for _, title := range c.Load {
			asked = asked || strings.HasPrefix(w.title, title)
		}
		if asked {
			list = append(list, w)
		}
	}
	return list
}

func (c *compareCmd) systems() (list []*system, err error) {
	for _, name := range c.System {
		s, err := systemOf(name)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		list = systems
	}
	if c.Floor {
		list = slices.Concat(list, floors)
	}
	return list, nil
}

// updateDocs replaces the tables of documents.
func (c *compareCmd) updateDocs(text string) error {
	machine := report.ThisMachine()
	for _, name := range c.UpdateDocs {
		doc, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		doc, err = report.Between(doc, "calls", fmt.Sprintf(
			"Measured %s on %s (%d CPUs), %s %s, with `make compare-calls`.\n\n```text\n%s```\n",
			time.Now().UTC().Format("2006-01-02"), machine.CPUModel, machine.CPUs, machine.OS,
			machine.Kernel, text))
		if err == nil {
			err = os.WriteFile(name, doc, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// table shows the medians of all rounds, and the medians of the ratios between systems within a
// round.
func table(list []*system, work []workload, cells map[key][]result, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d rounds; x: relative to %s\n", rounds, base)
	for w := range work {
		g := report.Table{Left: []int{0}, Heads: [][]string{{
			work[w].title, "p50 us", "x", "p99 us", "calls/s", "x", "CPU us/call", "x",
		}}}
		for _, s := range list {
			all, of := cells[key{w, s.name}], cells[key{w, base}]
			row := []string{s.title}
			for _, figure := range []struct {
				of    func(result) float64
				ratio bool
			}{
				{func(r result) float64 { return r.P50Us }, true},
				{func(r result) float64 { return r.P99Us }, false},
				{func(r result) float64 { return float64(r.Calls) / r.Seconds }, true},
				{func(r result) float64 { return r.CPUUs }, true},
			} {
				value, ratio := medians(all, of, figure.of)
				row = append(row, report.Short(value))
				if figure.ratio {
					row = append(row, ratio)
				}
			}
			g.Rows = append(g.Rows, row)
		}
		b.WriteString("\n" + g.String())
	}
	return b.String()
}

// medians holds the median of a measured value, and the median of its ratio to the value of each
// other system.
func medians(all, of []result, figure func(result) float64) (value float64, ratio string) {
	var values, ratios []float64
	for i := range all {
		values = append(values, figure(all[i]))
		if i < len(of) && figure(of[i]) > 0 {
			ratios = append(ratios, figure(all[i])/figure(of[i]))
		}
	}
	if len(ratios) > 0 {
		ratio = fmt.Sprintf("%.2f", report.Median(ratios))
	}
	return report.Median(values), ratio
}

// measure starts a process that serves and another one that calls.
func measure(s *system, l *load, cpus pins) (res result, err error) {
	self, err := os.Executable()
	if err != nil {
		return res, err
	}
	server := exec.Command(self, "serve", s.name)
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return res, err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return res, err
	}
	if err := cpus.start(server, 0); err != nil {
		return res, err
	}
	defer func() { // It ends with its standard input.
		err = errors.Join(err, stdin.Close())
		_, _ = io.Copy(io.Discard, stdout)
		err = errors.Join(err, server.Wait())
	}()
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return res, fmt.Errorf("the server does not serve: %w", err)
	}
	client := exec.Command(self, "call", s.name, strings.TrimSpace(addr),
		"--callers", fmt.Sprint(l.callers), "--size", fmt.Sprint(l.sizeBytes),
		"--gap", l.gap.String(), "--duration", l.duration.String())
	client.Stderr = os.Stderr
	var out bytes.Buffer
	client.Stdout = &out
	if err := cpus.start(client, 1); err != nil {
		return res, err
	}
	if err := client.Wait(); err != nil {
		return res, err
	}
	return res, json.Unmarshal(out.Bytes(), &res)
}
