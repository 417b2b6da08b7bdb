package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/systems"
	"gobtl/cmd/mpibench/bench"
	"gobtl/internal/report"
)

// Programs are the files of the programs of the house.
type Programs struct{ Mpibench, Btlrun, Btlbench string }

// Config is what to compare.
type Config struct {
	Programs Programs
	Rounds   int
	Each     time.Duration // of each figure
	Limit    time.Duration // of each process
	CPUs     plan.CPUList  // to which the ranks are pinned in turn
	Quick    bool
	Beside   Beside // the work of others meanwhile; "" is Alone
	Machine  report.Machine
	// Progress is told what is done next; it may be nil.
	Progress func(step, total int, what string)
}

// Point is what a figure is of.
type Point struct {
	Test  string `json:"test"`
	Size  int    `json:"size"`
	Ranks int    `json:"ranks"`
}

func (p Point) isRate() bool { return p.Test == "bw" || p.Test == "mbw_mr" }

// Figure is the medians that the rounds have come to at a point.
type Figure struct {
	Point
	System string    `json:"system"`
	Median float64   `json:"median"` // of Rounds
	Rounds []float64 `json:"rounds"`
}

// Report is what a comparison has come to.
type Report struct {
	StartedAt time.Time         `json:"started_at"`
	Machine   report.Machine    `json:"machine"`
	Rounds    int               `json:"rounds"`
	Each      string            `json:"each"`
	CPUs      string            `json:"cpus"`
	Beside    Beside            `json:"beside,omitempty"`
	Versions  map[string]string `json:"versions"`
	Figures   []Figure          `json:"figures"`
	Failures  []string          `json:"failures,omitempty"`
}

// Run measures. With an error of ctx the report, if there is one, has what was measured by then.
func Run(ctx context.Context, cfg *Config) (*Report, error) {
	dir, err := os.MkdirTemp("", "mpibench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // A leftover harms nobody.
	h := systems.NewHost(cfg.CPUs, cfg.Each, cfg.Limit, dir)
	h.InParts(ownParts)
	r := &Report{
		StartedAt: time.Now(), Machine: cfg.Machine, Rounds: cfg.Rounds, Each: cfg.Each.String(),
		CPUs: cfg.CPUs.String(), Beside: cfg.Beside,
		Versions: map[string]string{gobtl: cfg.Machine.Version},
	}
	var present []*system
	for _, s := range all(cfg.Programs, cfg.Beside) {
		if err := s.probe(ctx, h, dir); err != nil {
			r.Failures = append(r.Failures, err.Error())
			continue
		}
		if s.found != "" {
			r.Versions[s.name] = s.found
		}
		s.broken = map[int]bool{}
		present = append(present, s)
	}
	list, own := jobs(cfg.Quick), 1
	if r.busy() {
		list, own = besideJobs(), 0
	}
	total, step := cfg.Rounds*(len(list)*len(present)+own), 0
	tell := func(what string) {
		if cfg.Progress != nil {
			cfg.Progress(step, total, what)
		}
		step++
	}
	for round := range cfg.Rounds {
		for number, j := range list {
			for i := range present {
				s := present[(i+round)%len(present)] // nobody is always the first
				tell(fmt.Sprintf("%s, %d ranks", s.name, j.ranks))
				if s.broken[number] {
					continue
				}
				figures, err := s.measure(ctx, h, j, cfg)
				r.add(s.name, figures, err)
				s.broken[number] = err != nil // It would hang the other rounds up as well.
			}
		}
		if !r.busy() {
			tell(btlOwn)
			figures, err := measureOwn(ctx, h, cfg)
			r.add(btlOwn, figures, err)
		}
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
	}
	if len(r.Figures) == 0 {
		return nil, errors.New(r.Failures[0])
	}
	return r, nil
}

// busy says that others worked on the CPUs meanwhile.
func (r *Report) busy() bool { return r.Beside.named() != Name }

// Named is the name of the report's lines in a document, and of its files.
func (r *Report) Named() string { return r.Beside.named() }

// add takes the figures of a round.
func (r *Report) add(system string, figures []bench.Result, err error) {
	if err != nil {
		r.Failures = append(r.Failures, fmt.Sprintf("%s: %v", system, err))
	}
	for _, f := range figures {
		p := Point{f.Test, f.Size, f.Ranks}
		if f.Test == "barrier" {
			p.Size = 0
		}
		g := r.find(system, p)
		if g == nil {
			r.Figures = append(r.Figures, Figure{Point: p, System: system})
			g = &r.Figures[len(r.Figures)-1]
		}
		g.Rounds = append(g.Rounds, f.Median)
		g.Median = report.Significant(report.Median(g.Rounds))
	}
}

func (r *Report) find(system string, p Point) *Figure {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.System == system && f.Point == p {
			return f
		}
	}
	return nil
}

// value is a system's figure at a point, 0 if it has none.
func (r *Report) value(system string, p Point) float64 {
	if f := r.find(system, p); f != nil {
		return f.Median
	}
	return 0
}

// better is the better of the other MPIs' figures at a point, 0 if there is none.
func (r *Report) better(p Point) (best float64) {
	for _, s := range []string{openMPI, mpich} {
		v := r.value(s, p)
		if v > 0 && (best == 0 || p.isRate() == (v > best)) {
			best = v
		}
	}
	return best
}
