package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	Serve   serveCmd   `cmd:"" hidden:"" help:"Serve until standard input ends."`
	Call    callCmd    `cmd:"" hidden:"" help:"Call a server, and write what that came to."`
	Compare compareCmd `cmd:"" default:"withargs" help:"Measure all systems in turns."`
}

type serveCmd struct {
	System string `arg:""`
}

// Run is called by kong.
func (c *serveCmd) Run() error {
	s, err := systemOf(c.System)
	if err != nil {
		return err
	}
	addr, err := s.serve()
	if err != nil {
		return err
	}
	fmt.Println(addr)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

type callCmd struct {
	System   string        `arg:""`
	Addr     string        `arg:""`
	Callers  int           `required:""`
	Size     int           `required:""`
	Gap      time.Duration `required:""`
	Duration time.Duration `required:""`
}

// Run is called by kong.
func (c *callCmd) Run() error {
	s, err := systemOf(c.System)
	if err != nil {
		return err
	}
	to, err := s.dial(c.Addr)
	if err != nil {
		return err
	}
	l := load{c.Callers, c.Size, c.Gap, c.Duration}
	res, err := l.run(to)
	if err != nil {
		return err
	}
	if err := to.close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

func main() {
	ctx := kong.Parse(new(cli), kong.UsageOnError())
	ctx.FatalIfErrorf(ctx.Run())
}
