//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gobtl/internal/report"
	"gobtl/test/netns/recovery"
)

type cli struct {
	Case    []string      `help:"Measure only these: loss, share, incast, pause, clean."`
	System  []string      `help:"Measure only these: usnic, adaptive, fixed, tcp, rxd."`
	Variant []string      `sep:"none" help:"Measure this too, as id:name=value,name=value of gobtl."`
	Rounds  int           `help:"Rounds (5)."`
	Each    time.Duration `help:"Measured time of a stream or a ping-pong (600ms)."`
	Limit   time.Duration `help:"Begin nothing after this time (12m)."`
	Loss    []float64     `help:"Percentages of loss (0,0.1,1,5)."`
	Queue   []int         `help:"Bytes of the bottleneck's queue (20000,100000,1000000)."`
	Calm    time.Duration `help:"Wait so long before each measurement for a machine that is idle (0)."`
	TCP     string        `name:"tcp" help:"Congestion control of TCP (cubic)."`
	Quick   bool          `help:"One short round of a part, within a minute."`

	JSON       string `name:"json" type:"path" help:"Write everything to this file."`
	CSV        string `name:"csv" type:"path" help:"Write every figure of every round to this file."`
	UpdateDocs string `type:"path" help:"Write tables into this document, plots beside it."`
}

func (c *cli) options() recovery.Options {
	o := recovery.Options{
		Cases: c.Case, Systems: c.System, More: c.Variant, Rounds: c.Rounds, Each: c.Each,
		Limit: c.Limit, Queues: c.Queue, Congestion: c.TCP, Calm: c.Calm,
	}
	for _, l := range c.Loss {
		o.Losses = append(o.Losses, l/100)
	}
	if c.Quick {
		o.Quick()
	}
	return o
}

func (c *cli) run(out, diag io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	o := c.options()
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	o.Progress = func(done, total int, what string) {
		end := "\n"
		if terminal {
			end = "\033[K\r"
		}
		fmt.Fprintf(diag, "%d of %d: %s%s", done+1, total, what, end)
	}
	r, err := onStand(ctx, o)
	if r == nil {
		return err
	}
	if c.UpdateDocs != "" && (c.part() || err != nil || r.Complete < roundsLeast) {
		fmt.Fprintln(diag, "recovery: only a part was measured:", c.UpdateDocs, "stays as it is")
		c.UpdateDocs = ""
	}
	return errors.Join(err, c.write(r, out))
}

// roundsLeast is the minimum number of complete rounds for which medians are shown.
const roundsLeast = 3

// part says that the tables would not be the complete ones that the documents show.
func (c *cli) part() bool {
	return len(c.Case)+len(c.System)+len(c.Variant)+len(c.Loss)+len(c.Queue) > 0 || c.Quick
}

func (c *cli) write(r *recovery.Result, out io.Writer) error {
	err := r.Write(out)
	if c.JSON != "" {
		data, e := json.MarshalIndent(r, "", " ")
		err = errors.Join(err, e, os.WriteFile(c.JSON, append(data, '\n'), 0o644))
	}
	if c.CSV != "" {
		f, e := os.Create(c.CSV)
		if e != nil {
			return errors.Join(err, e)
		}
		err = errors.Join(err, r.CSV(f), f.Close())
	}
	if c.UpdateDocs != "" {
		err = errors.Join(err, c.updateDocs(r))
	}
	return err
}

func (c *cli) updateDocs(r *recovery.Result) error {
	doc, err := os.ReadFile(c.UpdateDocs)
	if err != nil {
		return err
	}
	if doc, err = r.UpdateDocs(doc); err != nil {
		return fmt.Errorf("%s: %w", c.UpdateDocs, err)
	}
	plots, err := r.Plots()
	if err != nil {
		return err
	}
	files := map[string][]byte{c.UpdateDocs: doc}
	for name, plot := range plots {
		files[filepath.Join(report.PlotFolder(c.UpdateDocs), name)] = []byte(plot)
	}
	_, err = report.WriteFiles(files)
	return err
}
