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

// Programs holds the paths of the programs of this repository.
type Programs struct{ Mpibench, Btlrun, Btlbench string }

// Config describes a comparison.
type Config struct {
	Programs Programs
	Rounds   int
	Each     time.Duration // time for each figure
	Limit    time.Duration // time limit for each process
	CPUs     plan.CPUList  // CPUs to which the ranks are pinned in turn
	Quick    bool
	Beside   Beside // the kind of neighbours; "" is Alone
	Layers   bool   // measure the layers of package pair instead of MPI; not with Alone
	Machine  report.Machine
	// Progress is called before each step of the comparison. Progress may be nil.
	Progress func(step, total int, what string)
}

// Point identifies a measured value by its test, message size in bytes and number of ranks.
type Point struct {
	Test  string `json:"test"`
	Size  int    `json:"size"`
	Ranks int    `json:"ranks"`
}

func (p Point) isRate() bool { return p.Test == "bw" || p.Test == "mbw_mr" }

// Figure holds the values of one system at one Point.
type Figure struct {
	Point
	System string    `json:"system"`
	Median float64   `json:"median"` // median of Rounds
	Rounds []float64 `json:"rounds"`
}

// Report is the result of a comparison.
type Report struct {
	StartedAt time.Time         `json:"started_at"`
	Machine   report.Machine    `json:"machine"`
	Rounds    int               `json:"rounds"`
	Each      string            `json:"each"`
	CPUs      string            `json:"cpus"`
	Beside    Beside            `json:"beside,omitempty"`
	Layers    bool              `json:"layers,omitempty"`
	Versions  map[string]string `json:"versions"`
	Figures   []Figure          `json:"figures"`
	Failures  []string          `json:"failures,omitempty"`
}

// Run runs a comparison. If ctx is cancelled, Run returns the values that were measured so far, and
// the cause of ctx.
func Run(ctx context.Context, cfg *Config) (*Report, error) {
	dir, err := os.MkdirTemp("", "mpibench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // An error leaves a temporary folder.
	h := systems.NewHost(cfg.CPUs, cfg.Each, cfg.Limit, dir)
	h.InParts(ownParts)
	r := &Report{
		StartedAt: time.Now(), Machine: cfg.Machine, Rounds: cfg.Rounds, Each: cfg.Each.String(),
		CPUs: cfg.CPUs.String(), Beside: cfg.Beside, Layers: cfg.Layers,
		Versions: map[string]string{gobtl: cfg.Machine.Version},
	}
	var present []*system
	for _, s := range cfg.systems() {
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
	list, own := cfg.jobs(), 1
	if r.busy() {
		own = 0
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
				s := present[(i+round)%len(present)] // each round begins with another system
				tell(fmt.Sprintf("%s, %d ranks", s.name, j.ranks))
				if s.broken[number] || !s.takes(j) {
					continue
				}
				figures, err := s.measure(ctx, h, j, cfg)
				r.add(s.name, figures, err)
				s.broken[number] = err != nil // The job would fail in the other rounds, too.
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

// The method busy reports whether neighbours used the CPUs during the measurement.
func (r *Report) busy() bool { return r.Beside.named() != Name }

// The method systems returns the systems that are measured.
func (c *Config) systems() []*system {
	if c.Layers {
		return layerSystems(c.Programs)
	}
	return all(c.Programs, c.Beside)
}

func (c *Config) jobs() []job {
	switch {
	case c.Layers:
		return layerJobs(c.Quick)
	case c.Beside.named() != Name:
		return besideJobs()
	}
	return jobs(c.Quick)
}

// Named returns the name of the report's section in a document, which is also the name of its
// files.
func (r *Report) Named() string {
	if r.Layers {
		return "layers-" + r.Beside.named()
	}
	return r.Beside.named()
}

// add adds the values of a system from one round of the comparison.
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

// The method value returns the value of a system at a point, or 0 if there is none.
func (r *Report) value(system string, p Point) float64 {
	if f := r.find(system, p); f != nil {
		return f.Median
	}
	return 0
}

// better returns the better value of the two other MPI libraries at a point, or 0 if there is none.
func (r *Report) better(p Point) (best float64) {
	for _, s := range []string{openMPI, mpich} {
		v := r.value(s, p)
		if v > 0 && (best == 0 || p.isRate() == (v > best)) {
			best = v
		}
	}
	return best
}
