//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gobtl/cmd/btlrun/job"
	"gobtl/internal/usage"
	"gobtl/launch/pmi"
)

const cliDescription = `Run a program N times, as the ranks of one job. The ranks find each other by
PMI-1, as under mpiexec: with package launch, or as programs of MPICH do. When one of them dies the
others are ended, but with --keep-going, and btlrun ends with its status.`

// cli holds the options and arguments of the command line.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	usage.Own

	Ranks   int           `short:"n" name:"np" default:"1" placeholder:"N" help:"Ranks to start. Default: ${default}."`
	Hosts   string        `short:"H" placeholder:"A,B:2" help:"Hosts in the order in which ranks are given to them: one in each turn, or as many as stand behind the colon. Default: all ranks on this host. It is known by its name and as localhost; others need btlrun, and the program, at the same paths."`
	Rsh     string        `default:"ssh -x -T -o BatchMode=yes" placeholder:"CMD" help:"Remote shell: words, before the host. Default: ${default}."`
	Remote  string        `name:"remote-btlrun" placeholder:"PATH" help:"btlrun on the other hosts. Default: the path of this one."`
	Label   *bool         `short:"l" negatable:"" help:"Begin each line with the rank that has written it. Default: if standard output is a terminal, and there are several."`
	Dir     string        `name:"wdir" placeholder:"PATH" help:"Directory in which the ranks begin. Default: the present one."`
	Grace   time.Duration `default:"5s" help:"Time for the ranks to end by themselves when one has died, after a SIGTERM. Default: ${default}."`
	Keep    bool          `name:"keep-going" help:"Let the others go on when a rank has died, or a host is lost, for programs that do without it."`
	Start   time.Duration `name:"start-timeout" default:"30s" help:"Time for a host to answer. Default: ${default}."`
	Format  string        `default:"text" enum:"text,json" placeholder:"NAME" help:"text, or json: the last line on standard error is an object with the status of the job. Default: ${default}."`
	Command []string      `arg:"" passthrough:"partial" placeholder:"PROG" help:"The program and its arguments."`
}

// Validate is called by kong after parsing.
func (c *cli) Validate() error {
	switch {
	case c.Ranks < 1 || c.Ranks > pmi.RanksMax:
		return fmt.Errorf("-n %d: want 1 to %d ranks", c.Ranks, pmi.RanksMax)
	case c.Grace < 0 || c.Start <= 0:
		return errors.New("--grace and --start-timeout must be positive")
	case len(strings.Fields(c.Rsh)) == 0:
		return errors.New("--rsh is empty")
	}
	_, err := job.ParseHosts(c.Hosts)
	return err
}

func newParser(c *cli, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, usage.Bytes(), kong.Name("btlrun"), kong.Description(cliDescription),
		kong.Writers(stdout, stderr), kong.Exit(exit))
}
