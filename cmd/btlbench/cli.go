package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// cli is the command line: one field per command, each in a file cmd_*.go. What a command sets are
// defaults of its flags.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	Pair    pairCmd    `cmd:"" help:"Measure between two processes on this host, each on a core."`
	Serve   serveCmd   `cmd:"" help:"Wait for clients; \"run\" on the other host measures."`
	Run     runCmd     `cmd:"" help:"Measure against a \"serve\" on another host."`
	Rate    pairCmd    `kong:"cmd,set='tests=rate',set='layer=both',help='Small messages per second: pair --test rate --layer both.'"`
	Compare compareCmd `cmd:"" help:"Measure beside libfabric, UCX, Open MPI and iperf3, in turns."`
	Info    infoCmd    `cmd:"" help:"List the fabric's providers and their attributes."`
	Params  paramsCmd  `cmd:"" help:"List every tunable of the transport, its value and its source."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const cliDescription = `Latency and bandwidth between two processes, of the transport and of the
bare fabric below it. Sizes are bytes with the binary suffixes K, M and G; latency is half a round
trip; MB is 1000000 bytes.`

// benchFlags say what to measure. They are also the record of it in the JSON report, and travel to
// the server, whose side of the work they describe as well.
//
//nolint:lll // A struct tag cannot be broken.
type benchFlags struct {
	Test     testList `help:"Tests: lat, bw, bibw, rate, lat_load, put_lat, put_bw; several with commas, or all. Default: ${default}." default:"${tests}" placeholder:"NAMES" json:"test"`
	Size     sizeList `help:"Message sizes such as 0,8,1K,..,4M (\"..\" doubles). Default: a few that suit the test." placeholder:"LIST" json:"size_bytes"`
	Provider string   `help:"Fabric provider; see \"btlbench info\". auto: RDMA hardware, else udp, else ofi/udp. Default: ${default}." default:"auto" placeholder:"NAME" json:"provider"`
	Offload  bool     `help:"Use segmentation offload with --provider ofi/udp: opt-in, tests itself, and goes off at the first doubt." json:"-"`
	Domain   string   `help:"Device (libfabric domain). Default: the provider's first." placeholder:"NAME" json:"domain"`
	Layer    string   `help:"btl: the transport. raw: the same on the bare fabric endpoint. both: in turn, with their ratio. Default: ${default}." placeholder:"NAME" enum:"btl,raw,both" default:"${layer}" json:"layer"`
	Profile  string   `help:"Recovery profile of the transport. Default: the transport's own." placeholder:"NAME" json:"profile"`
	MTU      int      `name:"mtu" help:"MTU of the network, with UDP that of the interface: 1500 makes datagrams of 1472 bytes over IPv4, 1452 over IPv6. Default: the provider's." placeholder:"BYTES" json:"mtu_bytes"`

	Duration   time.Duration `help:"Time for each line of the report, over all rounds. Default: 1s." json:"duration_ns"`
	Iterations int64         `help:"Messages (round trips) for each line of the report, instead of a time." placeholder:"N" json:"iterations"`
	Warmup     amount        `help:"Messages or time before each round that is not measured. Default: ${default}." default:"20ms" placeholder:"N|TIME" json:"warmup"`
	Rounds     int           `help:"Parts into which each measurement is cut; layers and loads take turns, medians are reported. Default: ${default}." default:"5" placeholder:"N" json:"rounds"`
	Window     windowList    `help:"Messages in flight in bw, bibw, rate, put_bw and the stream of lat_load; several with commas. Default: 64, rate 1,8,64,512, lat_load 2." placeholder:"LIST" json:"window"`
	Load       loadList      `help:"The stream in lat_load: max, or a part such as 50% of what it reaches alone; several with commas. Default: ${default}." default:"max" placeholder:"LIST" json:"load"`
	LoadSize   oneSize       `help:"Message size of that stream. Default: ${default}." default:"1M" placeholder:"SIZE" json:"load_size_bytes"`
	Verify     bool          `help:"Check every byte and that each message arrives once." json:"verify"`
	Impair     string        `help:"Faults on both sides: loss=1%,dup=1%,reorder=5%,delay=200us,corrupt=..,truncate=..,seed=7." placeholder:"FAULTS" json:"impair"`
	Set        []string      `help:"Set a tunable on both sides; see \"btlbench params\". Repeatable." placeholder:"NAME=VALUE" sep:"none" json:"set"`

	PeerTimeout time.Duration `help:"How long a peer may stay silent before it is dead." default:"5s" json:"peer_timeout_ns"`

	// ProviderReason says why the provider was chosen, if its user left that open.
	ProviderReason string `kong:"-" json:"provider_reason,omitempty"`
}

// Limits of the flags: generous, but such that no product of them overflows or exhausts the
// machine.
const (
	durationDefault = time.Second

	iterationsMax = 1 << 40
	roundsMax     = 1000
)

// Validate is called by kong after parsing; its error is one of usage.
func (f *benchFlags) Validate() error {
	switch {
	case f.Iterations != 0 && f.Duration != 0:
		return errors.New("--duration and --iterations exclude each other")
	case f.Iterations < 0 || f.Iterations > iterationsMax:
		return fmt.Errorf("--iterations must be 1 to %d", iterationsMax)
	case f.Duration < 0 || f.Duration > 24*time.Hour:
		return errors.New("--duration must be positive and at most 24h")
	case f.Warmup.Messages > iterationsMax || f.Warmup.Time > time.Hour:
		return errors.New("--warmup is too long")
	case f.Rounds < 1 || f.Rounds > roundsMax:
		return fmt.Errorf("--rounds must be 1 to %d", roundsMax)
	case f.LoadSize < 1 || f.LoadSize > loadSizeMax:
		return fmt.Errorf("--load-size must be 1 to %s", loadSizeMax)
	case f.Offload && f.Provider != providerOfiUDP:
		return fmt.Errorf("--offload needs --provider %s", providerOfiUDP)
	case f.MTU < 0:
		return errors.New("--mtu must not be negative")
	case f.PeerTimeout < 10*time.Millisecond || f.PeerTimeout > time.Hour:
		return errors.New("--peer-timeout must be 10ms to 1h")
	}
	if err := f.validateSet(); err != nil {
		return err
	}
	return f.validateImpair()
}

// validateSet reports settings that are not NAME=VALUE.
func (f *benchFlags) validateSet() error {
	for _, s := range f.Set {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
			return fmt.Errorf("--set %s: write NAME=VALUE", s)
		}
	}
	return nil
}

// layers lists the layers to measure, the reference first.
func (f *benchFlags) layers() []string {
	if f.Layer == layerBoth {
		return []string{layerRaw, layerBTL}
	}
	return []string{f.Layer}
}

// sizes returns the sizes of a test: those asked for, or a few that show its character.
func (f *benchFlags) sizes(test string) []int {
	if len(f.Size) > 0 {
		return f.Size
	}
	switch test {
	case testRate:
		return []int{8}
	case testLatLoad:
		return []int{8, 1 << 10}
	case testLat, testPutLat:
		return []int{8, 64, 1 << 10, 8 << 10, 64 << 10}
	default:
		return []int{64, 1 << 10, 8 << 10, 64 << 10, 1 << 20}
	}
}

// measured is the amount of one measurement: all rounds of one test, size and layer.
func (f *benchFlags) measured() amount {
	if f.Iterations > 0 {
		return amount{Messages: f.Iterations}
	}
	if f.Duration == 0 {
		return amount{Time: durationDefault}
	}
	return amount{Time: f.Duration}
}

// rounds is the number of rounds: no more than there are messages.
func (f *benchFlags) rounds() int {
	if f.Iterations > 0 {
		return int(min(int64(f.Rounds), f.Iterations))
	}
	return f.Rounds
}

// reportFlags say how to report.
//
//nolint:lll // A struct tag cannot be broken.
type reportFlags struct {
	Format  string        `help:"table, json (one document), csv or gobench (for benchstat). Default: ${default}." placeholder:"NAME" enum:"table,json,csv,gobench" default:"table"`
	Verbose bool          `short:"v" help:"In the table also what both sides knew of the path, say of the provider, and counted; json always has it."`
	Metrics string        `help:"Serve Prometheus metrics of this side on HOST:PORT/metrics while running." placeholder:"ADDR"`
	Timeout time.Duration `help:"Time to reach the peer and to agree with it." default:"5s"`
}

// Validate is called by kong after parsing.
func (f *reportFlags) Validate() error {
	if f.Timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	return checkAddress("--metrics", f.Metrics)
}

// checkAddress reports an address that is not HOST:PORT; empty is none.
func checkAddress(what, addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s %q: write HOST:PORT, as in 192.0.2.1:4711", what, addr)
	}
	return nil
}

// newParser returns the parser of the command line. exit is called by --help, and must not return.
func newParser(c *cli, env *environment, exit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("btlbench"),
		kong.Description(cliDescription),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(exit),
		kong.Vars{"tests": testLat + "," + testBW, "layer": layerBTL},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Bind(env),
	)
}
