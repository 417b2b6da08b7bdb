package main

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/usage"
)

// cli is the command line, with one field for each command, which has its own file cmd_*.go. The
// values that a command sets in the cli are the defaults of the command's flags.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	usage.Own

	Pair    pairCmd    `cmd:"" help:"Measure between two processes on this host, each pinned to a CPU."`
	Serve   serveCmd   `cmd:"" help:"Wait for clients, which measure by \"run\" on another host."`
	Run     runCmd     `cmd:"" help:"Measure against a \"serve\" on another host."`
	Rate    pairCmd    `kong:"cmd,set='tests=rate',set='layer=both',help='Small messages per second: pair --test rate --layer both.'"`
	Compare compareCmd `cmd:"" help:"Measure gobtl, libfabric, UCX, Open MPI and iperf3 in turns, and compare."`
	Report  reportCmd  `cmd:"" help:"Make one HTML page with tables and plots of JSON reports."`
	Info    infoCmd    `cmd:"" help:"List the fabric's providers and their attributes."`
	Params  paramsCmd  `cmd:"" help:"List every option of the transport, its value and where the value comes from."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const cliDescription = `Measure latency and bandwidth between two processes, of the transport and
of the bare fabric below it. Sizes are bytes with the binary suffixes K, M and G; latency is half a
round trip; MB is 1000000 bytes.`

// reportFlags holds the flags for reports.
//
//nolint:lll // A struct tag cannot be broken.
type reportFlags struct {
	Format  string        `help:"text, json (one document), csv or gobench (for benchstat). Default: ${default}." placeholder:"NAME" enum:"text,json,csv,gobench" default:"text"`
	Stream  bool          `name:"json-stream" help:"Write one JSON object on each line: the start, each interval, and the end with the whole report. The default of --interval is then 1s."`
	HDR     string        `name:"hdr" help:"Write half round trips in ns to FILE, as an HdrHistogram log: one histogram for each interval, or for each round without --interval." placeholder:"FILE"`
	Verbose bool          `short:"v" help:"In the text, also print each side's view of the path and the provider, all counters, and a line for each stream of --parallel. json always has them."`
	Metrics string        `help:"Serve Prometheus metrics of this side on HOST:PORT/metrics while running." placeholder:"ADDR"`
	Timeout time.Duration `help:"Time for the connection and the agreement with the peer." default:"5s"`
}

// Validate is called by kong after parsing.
func (f *reportFlags) Validate() error {
	if f.Timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	return checkAddress("--metrics", f.Metrics)
}

// checkAddress returns an error if an address is neither empty nor of the form HOST:PORT.
func checkAddress(what, addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s %q: write HOST:PORT with a port up to 65535, as in 192.0.2.1:4711",
			what, addr)
	}
	return nil
}

// newParser returns the parser of the command line. The flag --help calls the function exit, which
// must not return.
func newParser(c *cli, env *environment, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, usage.Bytes(), usage.Help(),
		kong.Name("btlbench"),
		kong.Description(cliDescription),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(exit),
		kong.Vars{
			"tests": plan.TestLat + "," + plan.TestBW, "layer": plan.LayerBTL,
			"port":      defaultPort,
			"memory":    plan.SizeText(memoryDefault),
			"all_tests": strings.Join(plan.AllTests, ", "),
		},
		kong.NamedMapper("nonzero", kong.MapperFunc(decodeNonzero)),
		kong.Bind(env),
	)
}

// decodeNonzero decodes a flag whose zero value means the default, and refuses an explicit zero.
func decodeNonzero(ctx *kong.DecodeContext, target reflect.Value) error {
	err := kong.NewRegistry().RegisterDefaults().ForType(target.Type()).Decode(ctx, target)
	if err == nil && target.IsZero() {
		return errors.New("must not be 0; without the flag it is the default")
	}
	return err
}
