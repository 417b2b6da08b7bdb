package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/measure"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/session"
	"gobtl/fabric"
)

// runFlags are the flags of the side that measures.
//
//nolint:lll // A struct tag cannot be broken.
type runFlags struct {
	plan.Flags
	reportFlags
	Node string       `help:"Local address for the fabric. Default: the address that leads to the peer." placeholder:"ADDR"`
	CPUs plan.CPUList `name:"cpus" help:"CPUs to which the threads are pinned. pair: the CPUs of the client's streams, then the CPUs of the server's (default: the first two). run and serve: one CPU for each stream in turn (default: none)." placeholder:"LIST"`
}

func (f *runFlags) validate() error {
	if f.Stream && f.Interval == 0 {
		f.Interval = plan.Span(time.Second)
	}
	switch {
	case f.Stream && f.Format != "text":
		return errors.New("--json-stream and --format exclude each other")
	case f.Interval > 0 && f.Format != "text" && f.Format != measure.FormatJSON:
		return errors.New("--interval is for --format text and json, and --json-stream")
	case f.HDR != "" && len(f.Test) > 0 && !slices.ContainsFunc(f.Test, plan.IsLatency):
		return errors.New("--hdr is for tests of latency")
	}
	if err := f.Flags.Validate(); err != nil {
		return err
	}
	return f.reportFlags.Validate()
}

// runCmd measures against a server.
//
//nolint:lll // A struct tag cannot be broken.
type runCmd struct {
	Address string `arg:"" help:"HOST or HOST:PORT of a \"btlbench serve\". Without a port: the default port of serve." name:"host"`
	runFlags
}

// Validate is called by kong after parsing.
func (c *runCmd) Validate() error {
	if err := c.validate(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil && portMissing(c.Address) {
		c.Address = net.JoinHostPort(strings.Trim(c.Address, "[]"), defaultPort)
	}
	return checkAddress("address", c.Address)
}

// portMissing reports whether a text is a host without a port, which is a name, an IPv4 address, or
// an IPv6 address with or without brackets.
func portMissing(text string) bool {
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	return bare != "" && (!strings.Contains(bare, ":") || net.ParseIP(bare) != nil)
}

// Run is called by kong.
func (c *runCmd) Run(env *environment) error {
	if err := c.resolveProvider(false); err != nil {
		return err
	}
	keepRuntimeOff(c.CPUs)
	return measureAndReport(env, "run", c.Address, &c.runFlags)
}

// keepRuntimeOff keeps the threads of the Go runtime away from the CPUs of hot loops, if other CPUs
// remain.
func keepRuntimeOff(hot []int) {
	// GOMAXPROCS is at least 2, because the hot loop never leaves its P and the control connection
	// needs another one.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	if len(hot) > 0 {
		layers.KeepOff(hot)
	}
}

// measureAndReport runs all requested measurements with a server, and writes the report, even of an
// interrupted run.
func measureAndReport(env *environment, command, addr string, f *runFlags) error {
	metrics, err := serveMetrics(env, f.Metrics)
	if err != nil {
		return err
	}
	defer metrics.close()
	log, err := newHDRLog(f.HDR)
	if err != nil {
		return err
	}
	group, err := session.Open(env.ctx, addr, &f.Flags, session.Options{
		Node: f.Node, CPUs: f.CPUs, Timeout: f.Timeout,
	})
	if err != nil {
		return err
	}
	defer group.Close()
	for i, side := range group.Sides() {
		metrics.watch(side, i)
	}
	doc := measure.NewDocument(command, &f.Flags)
	doc.Verbose = f.Verbose
	bench := &measure.Bench{Stderr: env.stderr, Session: group, Flags: &f.Flags, Doc: doc}
	bench.Log = log.hist
	bench.Describe()
	write := f.report(env, bench)
	err = bench.Run(env.ctx)
	err = cmp.Or(err, log.close())
	if err != nil && len(doc.Runs) == 0 && !isInterrupt(err) && !f.Stream {
		return err
	}
	if isInterrupt(err) {
		doc.Interrupted = true
		if bad := doc.Verdict(); bad != nil {
			env.notef("%v", bad)
		}
	}
	if werr := write(err); werr != nil && err == nil {
		err = fmt.Errorf("writing the report: %w", werr)
	}
	return err
}

// hdrLog is the file of --hdr, or has no file if the flag is not given.
type hdrLog struct {
	file *os.File
	hist *layers.HistLog
}

// newHDRLog creates the file before the first measurement.
func newHDRLog(name string) (l hdrLog, err error) {
	if name == "" {
		return l, nil
	}
	if l.file, err = os.Create(name); err != nil {
		return l, fmt.Errorf("--hdr: %w", err)
	}
	l.hist = layers.NewHistLog(l.file, time.Now())
	return l, nil
}

// close completes the file, and returns the first error of writing to it.
func (l *hdrLog) close() error {
	if l.file == nil {
		return nil
	}
	if err := errors.Join(l.hist.Err(), l.file.Close()); err != nil {
		return fmt.Errorf("--hdr: %w", err)
	}
	return nil
}

// The method report writes the intervals of a run while they are measured, and returns a function
// that writes the rest with the error of a failed run.
func (f *runFlags) report(env *environment, b *measure.Bench) (write func(error) error) {
	if f.Stream {
		stream := measure.NewStream(env.stdout)
		stream.Start(b.Doc)
		b.Live = stream.Add
		return func(failed error) error { return stream.End(b.Doc, failed) }
	}
	if f.Format == "text" {
		b.Begin = func(e measure.Extent) { _, _ = fmt.Fprintln(env.stdout, e) } // write reports errors
	}
	if f.Interval == 0 || f.Format != "text" {
		return func(error) error { return measure.Write(env.stdout, f.Format, b.Doc) }
	}
	live := &measure.LiveTable{W: env.stdout}
	b.Live = live.Add
	return func(error) error {
		_, err := fmt.Fprintln(env.stdout)
		return cmp.Or(live.Err(), err, measure.Write(env.stdout, f.Format, b.Doc))
	}
}

// resolveProvider replaces the name "auto" by the selected provider, and records the reason. It
// returns an error if --node is not of this host.
func (f *runFlags) resolveProvider(pair bool) error {
	if err := layers.CheckNode(f.Node); err != nil {
		return err
	}
	if f.Offload { // Validate has made sure that it fits.
		f.Provider, f.Offload = plan.ProviderOffload, false
	}
	if f.Provider == plan.ProviderAuto {
		c, err := layers.ChooseProvider(fabric.Hints{Domain: f.Domain, Node: f.Node}, pair)
		if err != nil {
			return err
		}
		f.Provider, f.ProviderReason = c.Provider, c.Reason
	}
	return nil
}
