package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/mpibench/bench"
	"gobtl/internal/usage"
)

const cliDescription = `Latency, bandwidth, message rate and collective operations of package mpi,
between the ranks of a job: start it under btlrun, mpiexec.hydra, mpirun or srun --mpi=pmi2. Sizes
are bytes with the binary suffixes K, M and G; MB is 1000000 bytes.`

// cli is the command line, with one field for each command.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	usage.Own

	Measure measureCmd `cmd:"" default:"withargs" help:"Measure between the ranks of this job. The default: its flags may stand alone."`
	Compare compareCmd `cmd:"" help:"Measure beside Open MPI and MPICH, in turns."`

	Beside    besideCmd    `cmd:"" hidden:"" help:"Run a command beside neighbours."`
	Neighbour neighbourCmd `cmd:"" hidden:"" help:"Be a neighbour until standard input ends."`
}

// testList is a list of names of tests.
type testList []string

// UnmarshalText parses a list such as "latency,bw", or "all".
func (l *testList) UnmarshalText(text []byte) error {
	if string(text) == "all" {
		*l = bench.Tests()
		return nil
	}
	var list testList
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(bench.Tests(), name) {
			return fmt.Errorf("unknown test %q%s: tests are %s, or all", name,
				plan.Suggestion(name, bench.Tests()), strings.Join(bench.Tests(), ", "))
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	*l = list
	return nil
}

// measureCmd is the command that measures between the ranks of a job.
//
//nolint:lll // A struct tag cannot be broken.
type measureCmd struct {
	Test     testList      `short:"t" default:"latency,bw" placeholder:"NAMES" help:"${all_tests}, or all. Default: ${default}."`
	Size     plan.SizeList `short:"s" default:"8,64,512,4K,64K,1M" placeholder:"LIST" help:"Sizes, as 8,1K,..,4M: of a message, of what a rank gives to Bcast and to reductions, of a rank's part in the others. Default: ${default}."`
	Ranks    []int         `placeholder:"LIST" help:"Numbers of ranks that take part in the tests of more than two. Default: all."`
	Format   string        `default:"text" enum:"text,json" placeholder:"NAME" help:"text, or json: an object a line, as figures come. Default: ${default}."`
	Duration time.Duration `default:"200ms" help:"Time for each figure. Default: ${default}."`
	Window   int           `default:"64" placeholder:"N" help:"Messages in flight, of bw, bibw and mbw_mr. Default: ${default}."`
	Threads  int           `default:"4" placeholder:"N" help:"Goroutines that send at each rank in latency_mt. Default: ${default}."`
	Verify   bool          `help:"Look at every byte that comes, between what is timed; end with 1 if one is wrong."`
	CPUs     plan.CPUList  `name:"cpus" default:"none" placeholder:"LIST" help:"CPUs to which the thread that measures is pinned, of each rank of a host in turn; or none. Default: ${default}."`
	Provider string        `placeholder:"NAME" help:"The fabric's provider: udp, shm, ofi/tcp and so on. Default: shm if all ranks are on one host and see the same memory, else udp."`
	Node     string        `placeholder:"ADDR" help:"This rank's address. Default: loopback if all ranks are on one host, else the provider's choice."`
	Wait     string        `default:"adaptive" enum:"adaptive,busy,event" placeholder:"NAME" help:"How to wait: adaptive, busy or event. Default: ${default}."`
	Verbose  bool          `short:"v" help:"Say which network the ranks use, and why, and how they have waited."`
	Limit    time.Duration `default:"10m" help:"Time after which a job is given up. Default: ${default}."`
}

// The constants are limits of options.
const (
	windowMax  = 4096
	threadsMax = 1024
)

// Validate is called by kong after parsing.
func (c *measureCmd) Validate() error {
	switch {
	case c.Duration <= 0 || c.Duration > time.Hour:
		return errors.New("--duration must be more than 0 and at most 1h")
	case c.Window < 1 || c.Window > windowMax:
		return fmt.Errorf("--window must be 1 to %d", windowMax)
	case c.Threads < 1 || c.Threads > threadsMax:
		return fmt.Errorf("--threads must be 1 to %d", threadsMax)
	case c.Limit <= 0:
		return errors.New("--limit must be positive")
	}
	for _, n := range c.Ranks {
		if n < bench.RanksMin {
			return fmt.Errorf("--ranks: %d, want %d or more", n, bench.RanksMin)
		}
	}
	return nil
}

// newParser returns the parser of the command line. The option --help calls exit, which must not
// return.
func newParser(c *cli, env *environment, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, usage.Bytes(),
		kong.Name("mpibench"),
		kong.Description(cliDescription),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(exit),
		kong.Vars{"all_tests": strings.Join(bench.Tests(), ", ")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Bind(env),
	)
}

// environment holds the parts of the process that a command may use.
type environment struct {
	stdout, stderr io.Writer
}

// notef writes one line to standard error.
func (e *environment) notef(format string, args ...any) {
	fmt.Fprintln(e.stderr, "mpibench: "+plan.OneLine(fmt.Sprintf(format, args...)))
}
