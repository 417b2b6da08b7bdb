//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"gobtl/cmd/btlrun/agent"
	"gobtl/cmd/btlrun/job"
	"gobtl/internal/usage"
)

// The constants below are exit statuses for failures of btlrun itself. After a job, the exit status
// is that of the ranks.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// exitPanic carries an exit status to run when an option such as --help ends the program.
type exitPanic int

// run executes a command line and returns the exit status.
func run(args []string, stdin, stdout, stderr *os.File) (status int) {
	if len(args) == 1 && args[0] == "agent" { // started by another btlrun
		if err := agent.Serve(stdin, stdout); err != nil {
			fmt.Fprintln(stderr, "agent:", err)
			return exitFailure
		}
		return exitOK
	}
	bare := len(args) == 0
	if bare {
		args, stdout = []string{"--help"}, stderr
	}
	defer func() {
		if code, ok := recover().(exitPanic); ok {
			status = int(code)
		}
		if bare {
			status = exitUsage
		}
	}()
	var c cli
	parser, err := newParser(&c, stdout, stderr, func(code int) { panic(exitPanic(code)) })
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err == nil && c.Command[0] == "--" { // kong keeps the separator
		if c.Command = c.Command[1:]; len(c.Command) == 0 {
			err = errors.New("no program behind --")
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "btlrun:", usage.Misuse("btlrun", err))
		return exitUsage
	}
	return launch(&c, stdin, stdout, stderr)
}

// outcome is the result of a job, which --format json writes.
type outcome struct {
	Schema string `json:"schema"`
	Ranks  int    `json:"ranks"`
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"` // why a rank, a host or btlrun itself failed
}

// tell writes the outcome of a job in the given format.
func tell(w io.Writer, format string, o outcome, err error) {
	switch {
	case format == "json":
		o.Schema = "gobtl-run/1"
		if err != nil {
			o.Error = err.Error()
		}
		_ = json.NewEncoder(w).Encode(o) // An error cannot be reported any more.
	case err != nil:
		fmt.Fprintln(w, "btlrun:", err)
	}
}

// launch runs the job that a command line asks for.
func launch(c *cli, stdin, stdout, stderr *os.File) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)
	hosts, err := job.ParseHosts(c.Hosts)
	if err == nil {
		c.Dir, err = filepath.Abs(c.Dir) // "" is the working directory
	}
	if err == nil && c.Remote == "" {
		c.Remote, err = os.Executable()
	}
	if err != nil {
		fmt.Fprintln(stderr, "btlrun:", err)
		return exitFailure
	}
	label := c.Ranks > 1 && term.IsTerminal(int(stdout.Fd()))
	if c.Label != nil {
		label = *c.Label
	}
	status, err := job.Run(job.Options{
		Size: c.Ranks, Hosts: hosts, Args: c.Command, Env: os.Environ(), Dir: c.Dir,
		Rsh: strings.Fields(c.Rsh), Agent: c.Remote, Stdin: input(stdin), Stdout: stdout, Stderr: stderr,
		Label: label, Signals: signals, Suspend: suspend,
		Grace: c.Grace, StartTimeout: c.Start, KeepGoing: c.Keep,
	})
	tell(stderr, c.Format, outcome{Ranks: c.Ranks, Status: status}, err)
	return status
}
