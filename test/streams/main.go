package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	Serve   serveCmd   `cmd:"" hidden:"" help:"Serve until standard input ends."`
	Call    callCmd    `cmd:"" hidden:"" help:"Put a load on a server, and write what came of it."`
	Compare compareCmd `cmd:"" default:"withargs" help:"Measure all systems in turns."`
}

// profile writes a CPU profile into a file of the given directory, if there is one.
func profile(folder, name string) (stop func(), err error) {
	if folder == "" {
		return func() {}, nil
	}
	f, err := os.Create(folder + "/" + name + ".pprof")
	if err != nil {
		return nil, err
	}
	return pprof.StopCPUProfile, pprof.StartCPUProfile(f)
}

type serveCmd struct {
	System  string `arg:""`
	Host    string `arg:""`
	Profile string
}

// Run is called by kong.
func (c *serveCmd) Run() error {
	s, err := systemOf(c.System)
	if err != nil {
		return err
	}
	l, err := s.listen(c.Host)
	if err != nil {
		return err
	}
	stop, err := profile(c.Profile, c.System+"-serve")
	if err != nil {
		return err
	}
	defer stop()
	go serveAll(l)
	fmt.Println(addressOf(l))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serveAll serves all streams of a listener until it is closed.
func serveAll(l net.Listener) {
	for {
		stream, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _ = serve(stream) }() // The client tells of what goes wrong.
	}
}

// addressOf returns the address by which other hosts reach a listener.
func addressOf(l net.Listener) string {
	if g, ok := l.(gobtlListener); ok {
		return g.node.Address()
	}
	return l.Addr().String()
}

type callCmd struct {
	System   string        `arg:""`
	Address  string        `arg:""`
	Load     string        `required:""`
	Duration time.Duration `required:""`
	Profile  string
}

// Run is called by kong.
func (c *callCmd) Run() error {
	s, err := systemOf(c.System)
	if err != nil {
		return err
	}
	l, err := loadOf(c.Load)
	if err != nil {
		return err
	}
	const most = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	d, err := s.dial(ctx, c.Address)
	if err != nil {
		return err
	}
	stop, err := profile(c.Profile, c.System+"-call")
	if err != nil {
		return err
	}
	res, err := l.run(ctx, d, c.Duration)
	stop()
	if err != nil {
		return err
	}
	if err := d.close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

func loadOf(name string) (*load, error) {
	for _, l := range loads {
		if l.name == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no load %q", name)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k := kong.Parse(new(cli), kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)))
	k.FatalIfErrorf(k.Run())
}
