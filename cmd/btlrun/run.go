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

// Exit statuses of btlrun's own; else they are the ranks'.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// exitPanic carries the exit status out of kong's flags that end the program.
type exitPanic int

// run executes a command line and returns the exit status.
func run(args []string, stdin, stdout, stderr *os.File) (status int) {
	if len(args) == 1 && args[0] == "agent" { // as another btlrun has it started
		if err := agent.Serve(stdin, stdout); err != nil {
			fmt.Fprintln(stderr, "agent:", err)
			return exitFailure
		}
		return exitOK
	}
	defer func() {
		if code, ok := recover().(exitPanic); ok {
			status = int(code)
		}
	}()
	var c cli
	parser, err := newParser(&c, stdout, stderr, func(code int) { panic(exitPanic(code)) })
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err == nil && c.Command[0] == "--" { // kong leaves it in front of what it does not parse
		if c.Command = c.Command[1:]; len(c.Command) == 0 {
			err = errors.New("no program behind --")
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "btlrun:", usage.Text(err))
		return exitUsage
	}
	return launch(&c, stdin, stdout, stderr)
}

// outcome is what --format json tells of a job.
type outcome struct {
	Schema string `json:"schema"`
	Ranks  int    `json:"ranks"`
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"` // why a rank, a host or btlrun itself failed
}

// tell writes how the job went.
func tell(w io.Writer, format string, o outcome, err error) {
	switch {
	case format == "json":
		o.Schema = "gobtl-run/1"
		if err != nil {
			o.Error = err.Error()
		}
		_ = json.NewEncoder(w).Encode(o) // Nobody is left to tell of an error there.
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
		c.Dir, err = filepath.Abs(c.Dir) // "" is the present one
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
