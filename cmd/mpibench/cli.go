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
	"gobtl/internal/plain"
	"gobtl/internal/usage"
)

const cliDescription = `Measure latency, bandwidth, message rate and collective operations of
package mpi between the ranks of a job. Start mpibench under btlrun, mpiexec.hydra, mpirun or srun
--mpi=pmi2. Sizes are bytes with the binary suffixes K, M and G; MB is 1000000 bytes.`

// cli is the command line, with one field for each command.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	usage.Own

	Measure measureCmd `cmd:"" default:"withargs" help:"Measure between the ranks of this job. This command is the default."`
	Compare compareCmd `cmd:"" help:"Measure gobtl, Open MPI and MPICH in turns, and compare."`

	Beside    besideCmd    `cmd:"" hidden:"" help:"Run a command beside neighbours."`
	Layer     layerCmd     `cmd:"" hidden:"" help:"Measure one layer between two processes."`
	Neighbour neighbourCmd `cmd:"" hidden:"" help:"Be a neighbour until standard input ends."`
}

// testList is a list of names of tests.
type testList []string

// UnmarshalText parses a comma-separated list such as "latency,bw", or "all".
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
	Size     plan.SizeList `short:"s" default:"8,64,512,4K,64K,1M" placeholder:"LIST" help:"Sizes, such as 8,1K,..,4M: bytes of a message, bytes of each rank's data in Bcast and reductions, bytes of each rank's part in other collectives. Default: ${default}."`
	Ranks    []int         `placeholder:"LIST" help:"Numbers of ranks for the tests of more than two ranks. Default: all."`
	Format   string        `default:"text" enum:"text,json" placeholder:"NAME" help:"text, or json with one object on each line. Default: ${default}."`
	Duration time.Duration `default:"200ms" help:"Time for each figure. Default: ${default}."`
	Window   int           `default:"64" placeholder:"N" help:"Messages in flight in bw, bibw and mbw_mr. Default: ${default}."`
	Threads  int           `default:"4" placeholder:"N" help:"Sending goroutines of each rank in latency_mt. Default: ${default}."`
	Verify   bool          `help:"Check every received byte, outside of the timed part. The exit status is 1 if a byte is wrong."`
	CPUs     plan.CPUList  `name:"cpus" default:"none" placeholder:"LIST" help:"CPUs to which the measuring threads of a host's ranks are pinned in turn; or none. Default: ${default}."`
	Provider string        `placeholder:"NAME" help:"The fabric's provider: udp, shm, ofi/tcp and so on. Default: shm if all ranks share the memory of one host, else udp."`
	Node     string        `placeholder:"ADDR" help:"This rank's address. Default: loopback if all ranks are on one host, else the provider's choice."`
	Wait     string        `default:"adaptive" enum:"adaptive,busy,event" placeholder:"NAME" help:"How to wait: adaptive, busy or event. Default: ${default}."`
	Verbose  bool          `short:"v" help:"Print the network of the ranks, the reason for it, and how the ranks have waited."`
	Limit    time.Duration `default:"10m" help:"Longest time for a job. Default: ${default}."`
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
// return to the parser.
func newParser(c *cli, env *environment, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, usage.Bytes(), usage.Help(),
		kong.Name("mpibench"),
		kong.Description(cliDescription),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(exit),
		kong.Vars{"all_tests": strings.Join(bench.Tests(), ", ")},
		kong.Bind(env),
	)
}

// environment holds the parts of the process that a command may use.
type environment struct {
	stdout, stderr io.Writer
}

// notef writes one line to standard error.
func (e *environment) notef(format string, args ...any) {
	fmt.Fprintln(e.stderr, "mpibench: "+plain.Text(fmt.Sprintf(format, args...)))
}
