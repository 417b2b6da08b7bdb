package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"gobtl/test/sim/swarm"
)

type cli struct {
	Seeds     uint64        `default:"1000" help:"How many seeds to run."`
	First     uint64        `default:"1" help:"The first seed."`
	Workers   int           `default:"0" help:"Seeds run at once; 0 takes the number of processors."`
	Profile   string        `help:"Recovery profile of all modules; default: drawn for each."`
	Reliable  bool          `help:"Only networks that are reliable and ordered by themselves."`
	Without   []string      `help:"Leave out these faults, incidents and attacks."`
	TimeLimit time.Duration `help:"Begin no further seed after this time."`
	KeepGoing bool          `help:"Go on after a failure, and list all seeds that fail."`
	Slow      time.Duration `help:"List the seeds that take longer than this."`
	Replay    uint64        `help:"Run this seed again, and trace it."`
	Trace     string        `help:"Where a replay's trace goes; default: standard output." type:"path"`
	Pcap      string        `help:"Where a replay's packets go, for Wireshark." type:"path"`
}

// errFailed means that a seed failed or that a fault never occurred, and that the user was already
// told.
var errFailed = errors.New("failed")

// coverageSeeds is the number of seeds from which on a fault that never occurred counts as a
// failure.
const coverageSeeds = 1000

// progressSeeds is the number of seeds between two lines of progress if there is no terminal.
const progressSeeds = 1000

func (c *cli) run(out, diag io.Writer) error {
	if c.Replay != 0 {
		return c.replay(out, diag)
	}
	return c.swarm(out, diag)
}

func (c *cli) options() swarm.Options {
	return swarm.Options{Profile: c.Profile, Without: c.Without, Reliable: c.Reliable}
}

// replayCommand is the command that runs a seed again.
func (c *cli) replayCommand(seed uint64) string {
	var flags []string
	if c.Profile != "" {
		flags = append(flags, "--profile "+c.Profile)
	}
	if c.Reliable {
		flags = append(flags, "--reliable")
	}
	if len(c.Without) > 0 {
		flags = append(flags, "--without "+strings.Join(c.Without, ","))
	}
	s := fmt.Sprintf("make replay SEED=%d", seed)
	if len(flags) > 0 {
		s += fmt.Sprintf(" SWARM_FLAGS='%s'", strings.Join(flags, " "))
	}
	return s
}

// fleet holds the seeds that are run.
type fleet struct {
	c      *cli
	out    io.Writer
	next   atomic.Uint64
	mu     sync.Mutex
	sum    swarm.Result
	failed int
	slow   time.Duration
	worst  uint64
	bar    *progressbar.ProgressBar
	began  time.Time
}

func (c *cli) swarm(out, diag io.Writer) error {
	f := &fleet{c: c, out: out, began: time.Now()}
	if file, ok := diag.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		f.bar = progressbar.NewOptions64(int64(c.Seeds), progressbar.OptionSetWriter(diag),
			progressbar.OptionSetDescription("seeds"), progressbar.OptionShowCount(),
			progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	workers := c.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(f.work)
	}
	wg.Wait()
	if f.bar != nil {
		_ = f.bar.Finish() // only a display
	}
	report(out, &f.sum, time.Since(f.began), f.slow, f.worst)
	if f.failed > 0 {
		fmt.Fprintf(out, "FAILED: %d of %d seeds\n", f.failed, f.sum.Runs)
		return errFailed
	}
	if missing := f.sum.Missing(); f.sum.Runs >= coverageSeeds && len(missing) > 0 &&
		len(c.Without) == 0 && !c.Reliable {
		fmt.Fprintf(out, "FAILED: never exercised: %s\n", strings.Join(missing, ", "))
		return errFailed
	}
	if f.sum.Runs < coverageSeeds || len(c.Without) > 0 || c.Reliable {
		fmt.Fprintf(out, "ok; whether all faults came is not judged with %d seeds\n", f.sum.Runs)
		return nil
	}
	fmt.Fprintln(out, "ok")
	return nil
}

// work runs seeds until none is left.
func (f *fleet) work() {
	for {
		i := f.next.Add(1) - 1
		if i >= f.c.Seeds || f.c.TimeLimit > 0 && time.Since(f.began) > f.c.TimeLimit {
			return
		}
		began := time.Now()
		res := swarm.Run(f.c.First+i, f.c.options())
		f.took(&res, time.Since(began))
		if res.Err != nil && !f.c.KeepGoing {
			f.next.Store(f.c.Seeds)
		}
	}
}

func (f *fleet) took(res *swarm.Result, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sum.Add(res)
	if took > f.slow {
		f.slow, f.worst = took, res.Seed
	}
	if f.bar != nil {
		_ = f.bar.Add(1) // only a display
	} else if f.sum.Runs%progressSeeds == 0 {
		fmt.Fprintf(f.out, "%d seeds, %d packets, %d failed, %v\n", f.sum.Runs, f.sum.Packets, f.failed,
			time.Since(f.began).Round(time.Second))
	}
	if f.c.Slow > 0 && took > f.c.Slow {
		fmt.Fprintf(f.out, "seed %d took %v: %d packets, %d events, %v of virtual time\n", res.Seed,
			took.Round(time.Millisecond), res.Packets, res.Steps, res.Virtual)
	}
	if res.Err != nil {
		f.failed++
		fmt.Fprintf(f.out, "FAIL seed %d: %v\n  %s\n", res.Seed, res.Err, f.c.replayCommand(res.Seed))
	}
}

// replay runs one seed and writes its trace.
func (c *cli) replay(out, diag io.Writer) (err error) {
	text, done, err := create(c.Trace, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var capture io.Writer
	if c.Pcap != "" {
		w, done, err := create(c.Pcap, nil)
		if err != nil {
			return err
		}
		capture = w
		defer func() { err = errors.Join(err, done()) }()
	}
	res, err := swarm.Replay(c.Replay, c.options(), text, capture)
	if err != nil {
		return err
	}
	fmt.Fprintf(diag, "seed %d: hash %016x, %d packets, %v of virtual time\n", res.Seed, res.Hash,
		res.Packets, res.Virtual)
	if res.Err != nil {
		fmt.Fprintf(diag, "FAIL seed %d: %v\n", res.Seed, res.Err)
		return errFailed
	}
	return nil
}

// create opens a file for writing, or returns w if there is no name.
func create(name string, w io.Writer) (io.Writer, func() error, error) {
	var file *os.File
	if name != "" {
		var err error
		if file, err = os.Create(name); err != nil {
			return nil, nil, err
		}
		w = file
	}
	b := bufio.NewWriterSize(w, 1<<16)
	return b, func() error {
		err := b.Flush()
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return err
	}, nil
}
