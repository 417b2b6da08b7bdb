package scenario

import (
	"errors"
	"fmt"
	"io"
	"time"

	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/test/sim/cluster"
	"gobtl/test/sim/trace"
)

// world is a script while it runs.
type world struct {
	script  *Script
	net     *cluster.Cluster
	trace   *trace.Writer
	nodes   map[string]*node
	order   []*node
	sides   map[route]*side // the latest endpoint of each route
	msgs    []*message      // message mN is msgs[N-1]
	rules   []*rule
	watches []*watch
	kept    map[string]keptPacket
	scratch []byte
	err     error // the first thing that is wrong, whoever noticed
	bytes   int   // of all messages
	waiting bool
}

// stepsMax limits the events of a script, so that a wrong script ends.
const stepsMax = 2_000_000

// bytesMax limits the bytes that a scenario sends.
const bytesMax = 64 << 20

// Run runs the script and writes its trace to out. The error of Run names the line that failed.
func (s *Script) Run(out io.Writer) error {
	w := &world{
		script: s, nodes: map[string]*node{}, sides: map[route]*side{},
		kept: map[string]keptPacket{}, watches: s.watches(),
	}
	w.trace = trace.New(out, trace.Brief(), trace.Without(sim.KindSlow))
	if err := w.open(); err != nil {
		return err
	}
	defer func() { _ = w.close() }() // what is left when the script has failed
	for _, st := range s.steps {
		err := st.run(w)
		if err == nil {
			err = w.err
		}
		if err != nil {
			return fmt.Errorf("script:%d: %s: at %v: %w", st.line, st.text, w.now(), err)
		}
	}
	if err := w.finish(); err != nil {
		return fmt.Errorf("script: at the end, %v: %w", w.now(), err)
	}
	return w.trace.Err()
}

func (w *world) open() (err error) {
	cfg := w.script.setup.net
	cfg.Observe = w.event
	if w.net, err = cluster.New(cfg); err != nil {
		return err
	}
	w.net.StepsMax = uint64(w.script.stepsMax)
	w.net.SetFilter(w.filter)
	for i, name := range w.script.nodes {
		n := &node{Host: w.net.Add(name), w: w, name: name, index: i}
		w.nodes[name] = n
		w.order = append(w.order, n)
	}
	w.net.SetPaths(sim.Path{Delay: defaultDelay})
	return nil
}

// close closes the remaining modules.
func (w *world) close() error {
	for _, n := range w.order {
		n.quiet = true
	}
	return w.net.Close()
}

func (w *world) node(name string) *node { return w.nodes[name] }

func (w *world) now() time.Duration { return w.net.Now().Sub(0) }

func (w *world) errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// fail records an error that a callback has found.
func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// The method step runs one event of the network.
func (w *world) step() error {
	if err := w.net.Step(); err != nil {
		return err
	}
	return w.err
}

func (w *world) runFor(d time.Duration) error {
	over := false
	w.net.After(d, func() { over = true })
	for !over {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

// runUntil runs until a condition is fulfilled.
func (w *world) runUntil(cond condition, limit time.Duration) error {
	over := false
	end := w.net.Now().Add(limit)
	w.net.At(end, func() { over = true })
	for {
		holds, is := cond()
		if holds {
			return nil
		}
		if over {
			return w.errorf("not within %v: %s", limit, is)
		}
		if err := w.step(); err != nil {
			return err
		}
	}
}

// The method idle reports whether no packet is in flight, and no acknowledgement or retransmission
// is to come.
func (w *world) idle() (bool, string) {
	if n := w.net.InFlight() + w.net.Queued(); n > 0 {
		return false, fmt.Sprintf("%d datagrams are on their way", n)
	}
	soon := w.net.Now().Add(settle)
	for _, n := range w.order {
		if n.Mod == nil {
			continue
		}
		if n.Mod.Deadline() <= soon {
			return false, n.name + " has something to do"
		}
		for _, s := range n.sides {
			if s.end != "" {
				continue
			}
			if packets, frags := s.ep.Outstanding(); packets+frags > 0 || !s.connected {
				return false, fmt.Sprintf("%v: connected %v, %d packets, %d fragments to go", s.route,
					s.connected, packets, frags)
			}
		}
	}
	return true, "idle"
}

// The method finish runs the network until all modules are idle, and returns an error for resources
// that are still in use.
func (w *world) finish() error {
	if err := w.runUntil(w.quiet, finishMax); err != nil {
		return err
	}
	if err := w.net.CheckIdle(); err != nil {
		return err
	}
	if err := w.checkMessages(); err != nil {
		return err
	}
	if err := errors.Join(w.close(), errors.Join(w.net.Violations()...)); err != nil {
		return err
	}
	return w.err
}

// finishMax is longer in virtual time than all timers of a script.
const finishMax = 5 * time.Minute

// The method quiet reports whether idle is true and no timer of a module runs, except for
// keep-alives.
func (w *world) quiet() (bool, string) {
	if ok, is := w.idle(); !ok {
		return ok, is
	}
	for _, n := range w.order {
		if n.Mod != nil && n.Mod.Deadline() != mono.Never && n.cfg.btl.KeepAlive < 0 {
			return false, n.name + " waits for a timer"
		}
	}
	return true, "quiet"
}
