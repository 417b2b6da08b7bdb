package main

import (
	"bufio"
	"bytes"
	"context"
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

//nolint:lll // A struct tag cannot be broken.
type compareCmd struct {
	Rounds     int           `help:"Times that everything is measured; medians are shown." default:"5"`
	Duration   time.Duration `help:"Time for each figure in each round." default:"500ms"`
	System     []string      `help:"Only these systems: tcp, tcp-bbr, quic-go, kcp-go, gobtl."`
	Load       []string      `help:"Only these loads: trip, bulk, small, busy, idle."`
	Path       []string      `help:"Only these paths: loopback, cable, loss, far; all but loopback as root." default:"loopback,cable,loss,far"`
	MTU        int           `help:"MTU of the cable, bytes." default:"1500"`
	Pinned     bool          `help:"Server and client have a CPU each." default:"true" negatable:""`
	Profile    string        `help:"A folder for processor profiles."`
	UpdateDocs []string      `help:"Files to rewrite between streams:begin and streams:end." type:"path"`
}

// key identifies one cell of the table.
type key struct{ path, load, system string }

// Run is called by kong.
func (c *compareCmd) Run(ctx context.Context) error {
	list, err := chosen(c.System)
	if err != nil {
		return err
	}
	if c.Rounds < 1 || c.Duration < time.Millisecond {
		return errors.New("--rounds must be 1 or more, --duration 1ms or more")
	}
	var cpus pins
	if c.Pinned {
		if cpus, err = choosePins(); err != nil {
			return err
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Medians of %d rounds; x: relative to %s\n", c.Rounds, base)
	for _, name := range c.Path {
		p, err := pathOf(name)
		if err != nil {
			return err
		}
		cells := map[key][]result{}
		err = onStand(ctx, func(s *stand) error {
			at, err := p.make(s, c.MTU)
			if err != nil {
				return err
			}
			return c.measureAll(p, at, list, cpus, cells)
		})
		if err != nil {
			return err
		}
		text.WriteString(c.table(p, list, cells))
	}
	fmt.Print(text.String())
	return c.updateDocs(text.String())
}

// wants reports whether a load is measured on a path.
func (c *compareCmd) wants(p *path, l *load) bool {
	return slices.Contains(p.loads, l.name) && (len(c.Load) == 0 || slices.Contains(c.Load, l.name))
}

// measureAll measures all systems on one path.
func (c *compareCmd) measureAll(p *path, at *ends, list []*system, cpus pins,
	cells map[key][]result,
) error {
	bar := report.NewProgress(os.Stderr, c.Rounds*len(p.loads)*len(list))
	defer bar.Finish()
	for round := range c.Rounds {
		for _, l := range loads {
			if !c.wants(p, l) {
				continue
			}
			for i := range list {
				s := list[(i+round)%len(list)] // who begins is another one each time
				bar.Begin(p.name + ": " + l.name + ": " + s.title)
				res, err := c.measure(s, l, at, cpus, max(c.Duration, p.least))
				if err != nil {
					return fmt.Errorf("%s: %s: %s: %w", p.name, s.title, l.title, err)
				}
				cells[key{p.name, l.name, s.name}] = append(cells[key{p.name, l.name, s.name}], res)
				bar.Step()
			}
		}
	}
	return nil
}

// updateDocs replaces the tables of documents.
func (c *compareCmd) updateDocs(text string) error {
	machine := report.ThisMachine()
	for _, name := range c.UpdateDocs {
		doc, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		doc, err = report.Between(doc, "streams", fmt.Sprintf(
			"Measured %s on %s (%d CPUs), %s %s, with `make compare-streams`.\n\n```text\n%s```\n",
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

// table shows the medians for one path, and the medians of the ratios between systems within a
// round.
func (c *compareCmd) table(p *path, list []*system, cells map[key][]result) string {
	g := report.Table{Left: []int{0}}
	head := []string{p.title}
	for _, s := range list {
		head = append(head, s.title, "x")
	}
	g.Heads = [][]string{head}
	for _, l := range loads {
		if !c.wants(p, l) {
			continue
		}
		row := []string{l.title + ", " + l.unit}
		fair := []string{"  slowest stream by fastest"}
		for _, s := range list {
			all, of := cells[key{p.name, l.name, s.name}], cells[key{p.name, l.name, base}]
			var values, ratios, spreads []float64
			for i, r := range all {
				values, spreads = append(values, r.Value), append(spreads, r.Spread)
				if i < len(of) && of[i].Value > 0 {
					ratios = append(ratios, r.Value/of[i].Value)
				}
			}
			ratio := ""
			if len(ratios) > 0 {
				ratio = fmt.Sprintf("%.2f", report.Median(ratios))
			}
			row = append(row, report.Short(report.Median(values)), ratio)
			fair = append(fair, fmt.Sprintf("%.2f", report.Median(spreads)), "")
		}
		g.Rows = append(g.Rows, row)
		if l.name == "busy" {
			g.Rows = append(g.Rows, fair)
		}
	}
	return "\n" + g.String()
}

// measure starts a process that serves and another one that applies a load.
func (c *compareCmd) measure(s *system, l *load, at *ends, cpus pins, each time.Duration,
) (res result, err error) {
	more := []string{}
	if c.Profile != "" {
		more = append(more, "--profile", c.Profile)
	}
	server, err := at.server(append([]string{"serve", s.name, at.host}, more...)...)
	if err != nil {
		return res, err
	}
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
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return res, fmt.Errorf("the server does not serve: %w", err)
	}
	client, err := at.client(append([]string{
		"call", s.name, strings.TrimSpace(address), "--load", l.name, "--duration", each.String(),
	}, more...)...)
	if err != nil {
		return res, err
	}
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

// ends starts the processes at both ends of a path.
type ends struct {
	host           string // the server's address
	server, client func(args ...string) (*exec.Cmd, error)
}
