package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gobtl/fabric/impair"
)

// Flags select the measurements. The Flags are also a part of the JSON report, and are sent to the
// server.
//
//nolint:lll // A struct tag cannot be broken.
type Flags struct {
	Test     TestList `help:"Tests: ${all_tests}; several with commas, or all. Default: ${default}." default:"${tests}" placeholder:"NAMES" json:"test"`
	Size     SizeList `help:"Message sizes such as 0,8,1K,..,4M (\"..\" doubles). Default: a few that suit the test." placeholder:"LIST" json:"size_bytes"`
	Provider string   `help:"Fabric provider; \"btlbench info\" lists them. auto: RDMA hardware, else udp, else ofi/udp. Default: ${default}." default:"auto" placeholder:"NAME" json:"provider"`
	Offload  bool     `help:"Use segmentation offload with --provider ofi/udp. The provider tests the offload, and turns it off after an error." json:"-"`
	Domain   string   `help:"Device (libfabric domain). Default: the provider's first." placeholder:"NAME" json:"domain"`
	Layer    string   `help:"What to measure. btl: the transport. runner: lat, bw and rate through a runner.Runner. raw: the bare fabric endpoint without the transport. both: btl and raw in turns, with their ratio. Default: ${default}." placeholder:"NAME" enum:"btl,raw,both,runner" default:"${layer}" json:"layer"`
	Profile  string   `help:"Recovery profile of the transport. Default: the transport's own." placeholder:"NAME" json:"profile"`
	MTU      Bytes    `name:"mtu" type:"nonzero" help:"MTU of the network in bytes. With UDP, 1500 makes datagrams of 1472 bytes over IPv4, 1452 over IPv6. Default: the provider's MTU." placeholder:"BYTES" json:"mtu_bytes"`

	Duration   Span          `short:"t" type:"nonzero" help:"Time for each line of the report, over all rounds, such as 10s. A number without a unit means seconds. Default: 1s, with --interval 10s." placeholder:"TIME" json:"duration_ns"`
	Interval   Span          `short:"i" type:"nonzero" help:"Print a report for each interval during the measurement, such as 1s. A number without a unit means seconds." placeholder:"TIME" json:"interval_ns,omitempty"`
	Iterations int64         `type:"nonzero" help:"Number of messages (round trips) for each line of the report, instead of a time." placeholder:"N" json:"iterations"`
	Warmup     Amount        `help:"Unmeasured messages, or time, before each round. Default: ${default}." default:"20ms" placeholder:"N|TIME" json:"warmup"`
	Rounds     int           `type:"nonzero" help:"Number of rounds of each measurement. Tests, layers and loads take turns in each round; the report has medians. Default: 5, with --interval 1." placeholder:"N" json:"rounds"`
	Window     windowList    `help:"Messages in flight, for all tests of bandwidth and rate and for the stream of lat_load; several with commas. Default: 64; rate and atomics 1,8,64,512; lat_load 2." placeholder:"LIST" json:"window"`
	Parallel   int           `short:"P" type:"nonzero" help:"Number of equal streams at the same time, each with its own connection and thread. The report has their sum, and with -v a line for each stream. Default: 1." placeholder:"N" json:"parallel,omitempty"`
	Reverse    bool          `short:"R" help:"Run the test bw from the server to the client, like the test bw_reverse." json:"-"`
	Bidir      bool          `help:"Run the test bw in both directions at once, like the test bibw." json:"-"`
	Rate       BitRate       `short:"b" type:"nonzero" aliases:"bitrate" help:"Largest rate of each stream and direction in bw, bibw and bw_reverse, in bits a second: 1G is 125 MB/s. K, M, G and T are decimal." placeholder:"RATE" json:"rate_bits_per_s,omitempty"`
	Places     int           `type:"nonzero" help:"Number of places in memory that put_bw and get_bw use in turn. A small number, such as 4, keeps the memory in the cache. Default: as many as the window." placeholder:"N" json:"places,omitempty"`
	Load       loadList      `help:"Rate of the stream in lat_load: max, or a percentage of the stream's bandwidth alone, such as 50%; several with commas. Default: ${default}." default:"max" placeholder:"LIST" json:"load"`
	LoadSize   Bytes         `help:"Message size of the stream in lat_load. Default: ${default}." default:"1M" placeholder:"SIZE" json:"load_size_bytes"`
	Wait       string        `help:"How both sides wait: busy polls, event sleeps, adaptive polls for the time of a wake-up and then sleeps. Default: ${default}." enum:"busy,adaptive,event" default:"busy" placeholder:"NAME" json:"wait"`
	Gap        time.Duration `help:"Pause between two messages of lat, put_lat and notice, such as 1s. Measures messages after a silence." placeholder:"TIME" json:"gap_ns"`
	Verify     bool          `help:"Check every byte and that each message arrives once." json:"verify"`
	Impair     string        `help:"Inject faults on both sides, such as loss=1%,delay=200us; also dup, reorder, corrupt, truncate and seed=7." placeholder:"FAULTS" json:"impair"`
	Set        []string      `help:"Set an option of the transport on both sides; \"btlbench params\" lists them. Repeatable." placeholder:"NAME=VALUE" sep:"none" json:"set"`

	PeerTimeout time.Duration `help:"Time after which a silent peer counts as dead." default:"5s" json:"peer_timeout_ns"`

	// ProviderReason is the reason why the provider was chosen, if the user has named none.
	ProviderReason string `kong:"-" json:"provider_reason,omitempty"`
}

const (
	// ProviderAuto is the value of --provider that leaves the choice to fabric.Choose.
	ProviderAuto = "auto"
	// ProviderOfiUDP is the provider of which ProviderOffload is a variant.
	ProviderOfiUDP = "ofi/udp"
	// ProviderOffload is ProviderOfiUDP with segmentation offload on its socket.
	ProviderOffload = "ofi/udp+offload"
)

// The constants are limits of the flags, for which no product overflows or exhausts the machine.
const (
	durationDefault         = time.Second
	intervalDurationDefault = 10 * time.Second
	roundsDefault           = 5

	intervalMin, intervalMax = 100 * time.Millisecond, time.Hour

	iterationsMax = 1 << 40
	parallelMax   = 64
	RoundsMax     = 1000
	gapMax        = time.Minute
)

// Validate is called by kong after parsing, and its errors are usage errors.
func (f *Flags) Validate() error {
	if f.Rounds == 0 {
		f.Rounds = roundsDefault
		if f.Interval > 0 {
			f.Rounds = 1
		}
	}
	switch {
	case f.Interval != 0 && (f.Interval.Time() < intervalMin || f.Interval.Time() > intervalMax):
		return fmt.Errorf("--interval must be %v to %v", intervalMin, intervalMax)
	case f.Iterations != 0 && f.Duration != 0:
		return errors.New("--duration and --iterations exclude each other")
	case f.Iterations < 0 || f.Iterations > iterationsMax:
		return fmt.Errorf("--iterations must be 1 to %d", int64(iterationsMax))
	case f.Duration < 0 || f.Duration.Time() > 24*time.Hour:
		return errors.New("--duration must be positive and at most 24h")
	case f.Warmup.Messages > iterationsMax || f.Warmup.Time > time.Hour:
		return errors.New("--warmup is too long")
	case f.Rounds < 1 || f.Rounds > RoundsMax:
		return fmt.Errorf("--rounds must be 1 to %d", RoundsMax)
	case f.Gap < 0 || f.Gap > gapMax:
		return fmt.Errorf("--gap must be positive and at most %v", gapMax)
	case f.Gap > 0 && len(f.Test) > 0 && !slices.ContainsFunc(f.Test, hasGap):
		return errors.New("--gap is for lat, put_lat and notice")
	case f.Places < 0 || f.Places > windowMax:
		return fmt.Errorf("--places must be 1 to %d", windowMax)
	case f.Places > 0 && len(f.Test) > 0 && !slices.ContainsFunc(f.Test, HasPlaces):
		return errors.New("--places is for put_bw and get_bw")
	case f.Places > 0 && f.Verify:
		return errors.New("--places and --verify exclude each other: what is read must stay")
	case f.LoadSize < 1 || f.LoadSize > loadSizeMax:
		return fmt.Errorf("--load-size must be 1 to %s", loadSizeMax)
	case f.Offload && f.Provider != ProviderOfiUDP:
		return fmt.Errorf("--offload needs --provider %s", ProviderOfiUDP)
	case f.MTU < 0:
		return errors.New("--mtu must not be negative")
	case f.PeerTimeout < 10*time.Millisecond || f.PeerTimeout > time.Hour:
		return errors.New("--peer-timeout must be 10ms to 1h")
	}
	if err := f.ValidateSet(); err != nil {
		return err
	}
	if err := f.validateStreams(); err != nil {
		return err
	}
	return f.validateImpair()
}

// validateStreams checks the flags for streams, and replaces bw by the tests of --reverse and
// --bidir.
func (f *Flags) validateStreams() error {
	switch {
	case f.Parallel < 0 || f.Parallel > parallelMax:
		return fmt.Errorf("--parallel must be 1 to %d", parallelMax)
	case f.Iterations > 0 && f.Iterations < int64(f.Streams()):
		return errors.New("--iterations: each of --parallel needs one")
	case f.Reverse && f.Bidir:
		return errors.New("--reverse and --bidir exclude each other")
	case f.Rate > 0 && len(f.Test) > 0 && !slices.ContainsFunc(f.Test, IsStream):
		return errors.New("--rate is for bw, bibw and bw_reverse")
	}
	flag, test := "--reverse", TestReverse
	if f.Bidir {
		flag, test = "--bidir", TestBiBW
	}
	if at := slices.Index(f.Test, TestBW); (f.Reverse || f.Bidir) && at >= 0 && len(f.Test) > 0 {
		f.Test = slices.Clone(f.Test)
		f.Test[at] = test
		f.Test = slices.Compact(f.Test)
	} else if (f.Reverse || f.Bidir) && len(f.Test) > 0 {
		return fmt.Errorf("%s is for bw", flag)
	}
	return nil
}

// Streams is the number of concurrent streams.
func (f *Flags) Streams() int { return max(1, f.Parallel) }

// hasGap reports whether a test can pause between its messages.
func hasGap(test string) bool {
	return test == TestLat || test == TestPutLat || test == TestNotice
}

// HasPlaces reports whether a test writes memory with room for many messages.
func HasPlaces(test string) bool { return test == TestPutBW || test == TestGetBW }

// ValidateSet returns an error for settings that are not NAME=VALUE.
func (f *Flags) ValidateSet() error {
	for _, s := range f.Set {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
			return fmt.Errorf("--set %s: write NAME=VALUE", s)
		}
	}
	return nil
}

// Layers lists the layers to measure, the reference first.
func (f *Flags) Layers() []string {
	if f.Layer == LayerBoth {
		return []string{LayerRaw, LayerBTL}
	}
	return []string{f.Layer}
}

// Sizes returns the requested sizes of a test, or a few typical ones.
func (f *Flags) Sizes(test string) []int {
	if len(f.Size) > 0 {
		return f.Size
	}
	switch test {
	case TestRate, TestAtomicLat, TestAtomic, TestAtomicPost:
		return []int{AtomicBytes}
	case TestLatLoad:
		return []int{8, 1 << 10}
	case TestLat, TestPutLat, TestNotice, TestGetLat:
		return []int{8, 64, 1 << 10, 8 << 10, 64 << 10}
	default:
		return []int{64, 1 << 10, 8 << 10, 64 << 10, 1 << 20}
	}
}

// Measured is the amount of one measurement, which has all rounds of one test, size and layer.
func (f *Flags) Measured() Amount {
	if f.Iterations > 0 {
		return Amount{Messages: f.Iterations}
	}
	switch {
	case f.Duration > 0:
		return Amount{Time: f.Duration.Time()}
	case f.Interval > 0:
		return Amount{Time: intervalDurationDefault}
	}
	return Amount{Time: durationDefault}
}

// RoundCount is the number of rounds, at most the number of messages for each stream.
func (f *Flags) RoundCount() int {
	if f.Iterations > 0 {
		return int(min(int64(f.Rounds), f.Iterations/int64(f.Streams())))
	}
	return f.Rounds
}

// validateImpair returns an error for faults that cannot be parsed.
func (f *Flags) validateImpair() error {
	if f.Impair == "" {
		return nil
	}
	if _, err := impair.Parse(f.Impair); err != nil {
		return fmt.Errorf("--impair: %w", err)
	}
	return nil
}
