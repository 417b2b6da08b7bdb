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
PMI-1, as under mpiexec: by package launch, or as programs of MPICH do. When a rank dies, btlrun
ends the other ranks, and then ends with the status of the dead rank.`

// cli holds the options and arguments of the command line.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	usage.Own

	Ranks   int           `short:"n" name:"np" default:"1" placeholder:"N" help:"Ranks to start. Default: ${default}."`
	Hosts   string        `short:"H" placeholder:"A,B:2" help:"Hosts, which get ranks in turns: one rank in each turn, or as many as stand behind the colon (a:2,b:2). Other hosts need btlrun and the program at the same paths. Default: all ranks on this host, whose name is also localhost."`
	Rsh     string        `default:"ssh -x -T -o BatchMode=yes -o ServerAliveInterval=15 -o ServerAliveCountMax=3" placeholder:"CMD" help:"Remote shell with its arguments. The default ends about a minute after its host has vanished. Default: ${default}."`
	Remote  string        `name:"remote-btlrun" placeholder:"PATH" help:"Path of btlrun on other hosts. Default: the path of this btlrun."`
	Label   *bool         `short:"l" negatable:"" help:"Begin each line of output with its rank. Default: only if standard output is a terminal and the job has several ranks."`
	Dir     string        `name:"wdir" placeholder:"PATH" help:"Working directory of the ranks. Default: the current directory."`
	Grace   time.Duration `default:"5s" help:"After a rank has died, time between SIGTERM and SIGKILL for the other ranks. Default: ${default}."`
	Keep    bool          `name:"keep-going" help:"Do not end the other ranks when a rank dies or a host is lost."`
	Start   time.Duration `name:"start-timeout" default:"30s" help:"Time for a host to answer. Default: ${default}."`
	Format  string        `default:"text" enum:"text,json" placeholder:"NAME" help:"text or json. With json, the last line on standard error is an object with the status of the job. Default: ${default}."`
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
	hosts, err := job.ParseHosts(c.Hosts)
	if err == nil && c.Ranks > perHostMax*len(hosts) {
		return fmt.Errorf("-n %d: at most %d ranks on each host", c.Ranks, perHostMax)
	}
	return err
}

// perHostMax bounds the ranks of a host. An agent starts the ranks of its host one by one, and
// carries out a signal afterwards.
const perHostMax = 4096

func newParser(c *cli, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, usage.Bytes(), usage.Help(), kong.Name("btlrun"),
		kong.Description(cliDescription), kong.Writers(stdout, stderr), kong.Exit(exit))
}
