package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gobtl/fabric/impair"
	"gobtl/internal/usage"
	"gobtl/stream"
)

const cliDescription = `Move messages of one size in one direction, and report every missing
message. One process receives, and another process, with --send, sends. Both processes must have the
same -m, -t, --mode and --first. If none of -x, --listen and --connect is given, each process prints
a line that identifies it, and asks on its terminal for the line of the other process.`

// cli holds the options of the command line.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	usage.Own

	Send         bool       `short:"s" help:"Send instead of receiving."`
	MessageBytes usage.Size `name:"message-bytes" short:"m" default:"64K" placeholder:"SIZE" help:"Size of a message, such as 8192, 64K or 1M. Default: ${default}."`
	Regions      int        `short:"b" default:"1" placeholder:"N" help:"Memory regions (blocks) of the ring. Default: ${default}."`
	Contiguous   int        `short:"c" default:"1" placeholder:"N" help:"Contiguous messages in a region. Default: ${default}."`
	Total        *total     `short:"t" placeholder:"N" help:"Total number of messages; regions are reused. 0 or endless: until Ctrl-C. Default: as many as the ring holds."`
	Delay        delay      `short:"d" default:"0" placeholder:"US" help:"Time for each message, in microseconds, or with a unit: 10us, 1ms. A sender sends one message in each such time; a reader of a receiver takes as long for each message."`
	File         string     `short:"f" placeholder:"NAME" help:"Data files NAME.0, NAME.1 and so on, one for each region: the sender loads them, the receiver saves them. Default: a pattern."`
	Exchange     string     `short:"x" placeholder:"NAME" help:"Exchange identities by the files NAME.send and NAME.recv, on a file system of both sides."`
	Device       string     `short:"r" placeholder:"NAME" help:"Network device such as eth0, or fabric provider such as udp or ofi/udp. Default: udp on the first device that other hosts can reach."`
	Port         int        `short:"p" default:"0" placeholder:"PORT" help:"UDP port for the datagrams of the unreliable mode. 0 and 1 mean any port."`
	GID          int        `name:"gid" short:"g" default:"-1" placeholder:"N" help:"Accepted without effect, for scripts of the SKA's program. --node sets the address."`
	Out          string     `short:"o" placeholder:"ADDR" help:"Post metrics to InfluxDB at HOST or HOST:PORT (port ${influx_port}, database gobtl) or http://HOST:PORT/write?db=NAME."`
	Every        uint64     `name:"interval" short:"v" default:"0" placeholder:"N" help:"Messages between two samples of the metrics. 0: one sample after each pass over all regions."`
	Log          int        `name:"log-level" short:"l" default:"5" placeholder:"0..7" help:"Log level on standard error, numbered as in RFC 5424: 3 errors, 4 warnings, 5 notices, 6 metrics, 7 everything. Default: ${default}."`

	Mode     stream.Mode   `default:"reliable" enum:"reliable,unreliable" placeholder:"NAME" help:"reliable: no message is lost, and the sender waits for the reader. unreliable: the sender never waits, and lost messages are counted. Default: ${default}."`
	Connect  []string      `placeholder:"HOST:PORT" help:"Connect to a peer that was started with --listen. A sender may name several receivers." sep:"none"`
	Listen   string        `placeholder:"HOST:PORT" help:"Accept peers at this address; port 0 picks a free port."`
	Peers    int           `name:"receivers" default:"1" placeholder:"N" help:"Sender with --listen: number of receivers to wait for before the stream starts. In the unreliable mode 0 starts at once, and further receivers may join later. Default: ${default}."`
	Joiners  int           `default:"${joiners}" placeholder:"N" help:"Sender of an unreliable stream without --group: largest number of receivers that receive a stream in progress after they have joined it, a quarter of them from one host. 0: none. Default: ${default}."`
	Streams  int           `default:"1" placeholder:"N" help:"Receiver with --listen: number of senders, each with a ring of its own. Default: ${default}."`
	Group    string        `placeholder:"ADDR:PORT" help:"Sender: send to this multicast group instead of to each receiver (unreliable)."`
	Node     string        `placeholder:"ADDR" help:"Local address. Default: the address that leads to --connect, or the address of --listen, or the first device's."`
	Rate     float64       `default:"0" placeholder:"GBIT" help:"Sender: rate of message bytes in Gbit/s, spread evenly. 0: as fast as possible."`
	Overrun  string        `name:"on-overrun" default:"block" enum:"block,drop" placeholder:"NAME" help:"If no region is free: block waits; drop discards and counts messages, at the receiver (unreliable mode) or at the sender (reliable mode, or -t0, with --rate or -d). Default: ${default}."`
	Timeout  time.Duration `default:"10s" help:"The stream ends after so long without a sign of life from the peer, or without a region released by the reader. Default: ${default}."`
	Wait     time.Duration `default:"1m" help:"Time for the peers to connect. Default: ${default}."`
	Grace    time.Duration `default:"0" help:"Receiver: time to wait for late datagrams after the sender's end; 0 means 200ms. Sender: the longest --grace that it accepts of a receiver; 0 means --timeout."`
	First    uint64        `default:"0" placeholder:"N" help:"Ordinal of the first message. Default: ${default}."`
	Datagram usage.Size    `default:"0" placeholder:"SIZE" help:"Largest datagram of the unreliable mode, in bytes. 0: as large as the network allows."`
	Ring     string        `placeholder:"FILE" help:"Keep the ring in this file, for example below /dev/shm. Another process fills the ring (sender) or reads it (receiver)."`
	Verify   bool          `help:"Receiver: compare every message with the sender's pattern."`
	Huge     bool          `name:"huge-pages" help:"Ask for huge pages for the ring's memory (Linux)."`
	Display  bool          `default:"true" negatable:"" help:"Show the first and last bytes of each region. Default: yes, up to 64 regions."`

	Format  string `default:"text" enum:"text,json" placeholder:"NAME" help:"Format of the final report: text, or json with one line for each stream. Default: ${default}."`
	Metrics string `placeholder:"HOST:PORT" help:"Serve Prometheus metrics at HOST:PORT/metrics."`
	Record  string `placeholder:"FILE" help:"Receiver: record the time and header of each arrival in this pcap file."`
	Missing string `placeholder:"FILE" help:"Receiver: write the ordinals of the missing messages to this file, a range FIRST-LAST on each line."`
	Impair  string `placeholder:"FAULTS" help:"Receiver, unreliable mode: faults of arriving datagrams, such as loss=1%,dup=1%,reorder=5%,corrupt=1%,seed=7."`
	CPU     int    `name:"cpu" default:"-1" placeholder:"N" help:"Pin the stream's thread to this CPU."`
	Quiet   bool   `help:"No progress bar."`

	faults impair.Faults
}

// total is the value of the option -t.
type total uint64

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *total) UnmarshalText(text []byte) error {
	if string(text) == "endless" {
		*t = 0
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil {
		return errors.New("write a number of messages, or endless")
	}
	*t = total(n)
	return nil
}

// delay is the value of the option -d.
type delay time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *delay) UnmarshalText(text []byte) error {
	if us, err := strconv.ParseUint(string(text), 10, 31); err == nil {
		*d = delay(time.Duration(us) * time.Microsecond)
		return nil
	}
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return errors.New("write microseconds as 10, or a time as 10us")
	}
	*d = delay(v)
	return nil
}

// geometry returns the shape of the ring.
func (c *cli) geometry() stream.Geometry {
	return stream.Geometry{
		MessageBytes: int(c.MessageBytes), Regions: c.Regions, RegionMessages: c.Contiguous,
	}
}

// total returns the number of messages of the stream, or 0 for an endless stream.
func (c *cli) total() uint64 {
	if c.Total != nil {
		return uint64(*c.Total)
	}
	g := c.geometry()
	return uint64(g.Messages())
}

func (c *cli) drops() bool { return c.Overrun == "drop" }

// config returns the configuration of the stream.
func (c *cli) config() stream.Config {
	cfg := stream.Config{
		Mode: c.Mode, Messages: c.total(), First: c.First, Timeout: c.Timeout, Meet: c.Wait,
		Grace: c.Grace, DatagramBytes: int(c.Datagram), Only: c.Listen == "",
	}
	if c.drops() {
		cfg.Overrun = stream.Drop
	}
	if c.Send {
		cfg.Receivers, cfg.Group = c.Peers, c.Group
		cfg.BitsPerSecond, cfg.Delay = c.Rate*1e9, time.Duration(c.Delay)
		cfg.JoinersMax = c.Joiners
		if c.Joiners == 0 {
			cfg.JoinersMax = -1
		}
		if c.Peers == 0 {
			cfg.Receivers = -1
		}
		if len(c.Connect) > 0 {
			cfg.Receivers = len(c.Connect)
		}
	}
	return cfg
}

// Validate checks the options, and returns a usage error. kong calls Validate after parsing.
func (c *cli) Validate() error {
	g := c.geometry()
	for _, f := range []struct {
		flag       string
		value, max int
	}{
		{"-m", g.MessageBytes, stream.MessageBytesMax},
		{"-b", g.Regions, stream.RegionsMax},
		{"-c", g.RegionMessages, stream.RegionMessagesMax},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("%s %d: 1 to %d", f.flag, f.value, f.max)
		}
	}
	if err := g.Validate(); err != nil {
		return err
	}
	if err := c.validateMeeting(); err != nil {
		return err
	}
	if err := c.validateRole(); err != nil {
		return err
	}
	switch {
	case c.Log < 0 || c.Log > 7:
		return fmt.Errorf("-l %d: 0 to 7", c.Log)
	case c.Port < 0 || c.Port > math.MaxUint16:
		return fmt.Errorf("-p %d: 0 to 65535", c.Port)
	case !(c.Rate == 0 || c.Rate >= 1e-6 && c.Rate <= 1e4):
		return fmt.Errorf("--rate %v: 0.000001 to 10000 Gbit/s", c.Rate)
	case c.Datagram != 0 && c.Datagram < 64:
		return fmt.Errorf("--datagram %d: at least 64 bytes", c.Datagram)
	case c.First > 1<<62 || c.total() > 1<<62:
		return errors.New("--first, -t: at most 2^62")
	case c.Timeout < 100*time.Millisecond || c.Timeout > time.Hour:
		return fmt.Errorf("--timeout %v: 100ms to 1h", c.Timeout)
	case c.Wait < time.Millisecond || c.Wait > time.Hour:
		return fmt.Errorf("--wait %v: 1ms to 1h", c.Wait)
	case c.Grace != 0 && c.Grace < time.Millisecond || c.Grace > time.Hour:
		return fmt.Errorf("--grace %v: 1ms to 1h", c.Grace)
	case c.CPU < -1 || c.CPU >= cpusMax:
		return fmt.Errorf("--cpu %d: 0 to %d", c.CPU, cpusMax-1)
	}
	if c.Out != "" {
		if _, err := influxURL(c.Out); err != nil {
			return err
		}
	}
	return checkAddress("--metrics", c.Metrics)
}

// validateMeeting checks the options by which the peers meet.
func (c *cli) validateMeeting() error {
	ways := 0
	for _, set := range []bool{c.Exchange != "", c.Listen != "", len(c.Connect) > 0} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("-x, --listen and --connect exclude each other")
	}
	for _, a := range c.Connect {
		if err := checkAddress("--connect", a); err != nil {
			return err
		}
	}
	switch {
	case len(c.Connect) > 1 && !c.Send:
		return errors.New("a receiver has one sender: name one --connect")
	case c.Peers < 0 || c.Peers > peersMax || len(c.Connect) > peersMax:
		return fmt.Errorf("--receivers: 0 to %d", peersMax)
	case c.Streams < 1 || c.Streams > peersMax:
		return fmt.Errorf("--streams: 1 to %d", peersMax)
	case c.Joiners < 0 || c.Joiners > peersMax:
		return fmt.Errorf("--joiners: 0 to %d", peersMax)
	case c.Peers != 1 && c.Listen == "":
		return errors.New("--receivers needs --listen")
	case c.Streams != 1 && c.Listen == "":
		return errors.New("--streams needs --listen")
	}
	return checkAddress("--listen", c.Listen)
}

const (
	// peersMax is the largest value of --receivers, --streams and --joiners.
	peersMax = 256
	// joinersDefault is the default of --joiners, and of stream.Config.JoinersMax.
	joinersDefault = 32
)

// validateRole checks the options that only one side, or one mode, can have.
func (c *cli) validateRole() error {
	unreliable := c.Mode == stream.Unreliable
	for _, f := range []struct {
		set        bool
		flag, need string
		ok         bool
	}{
		{c.Peers != 1, "--receivers", "--send", c.Send},
		{
			c.Joiners != joinersDefault, "--joiners", "--send --mode unreliable, without --group",
			c.Send && unreliable && c.Group == "",
		},
		{c.Streams != 1, "--streams", "the receiver", !c.Send},
		{c.Rate != 0, "--rate", "--send", c.Send},
		{c.Group != "", "--group", "--send --mode unreliable", c.Send && unreliable},
		{c.Peers == 0, "--receivers 0", "--mode unreliable", unreliable},
		{c.Record != "", "--record", "the receiver", !c.Send},
		{c.Missing != "", "--missing", "the receiver", !c.Send},
		{c.Verify, "--verify", "the receiver, without -f", !c.Send && c.File == ""},
		{c.Verify && c.Ring != "", "--verify", "no --ring", false},
		{c.Impair != "", "--impair", "the receiver of --mode unreliable", !c.Send && unreliable},
		{c.Ring != "" && c.Streams != 1, "--ring", "a single stream", false},
		{c.Ring != "" && c.Send && c.File != "", "-f", "no --ring", false},
		{
			c.drops() && c.Send && (!unreliable || c.total() == 0) && c.Ring == "", "--on-overrun drop",
			"--rate or -d",
			c.Rate != 0 || c.Delay != 0,
		},
	} {
		if f.set && !f.ok {
			return fmt.Errorf("%s needs %s", f.flag, f.need)
		}
	}
	if c.Group != "" {
		ap, err := netip.ParseAddrPort(c.Group)
		if err != nil || !ap.Addr().IsMulticast() {
			return fmt.Errorf("--group %q: write a multicast address as in 239.1.2.3:5000", c.Group)
		}
	}
	faults, err := impair.Parse(c.Impair)
	c.faults = faults
	return err
}

// checkAddress returns an error if an address is not of the form HOST:PORT. An empty address is
// also valid.
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

// influxPort is the default TCP port of InfluxDB.
const influxPort = "8086"

// influxURL parses the value of the option -o.
func influxURL(addr string) (string, error) {
	if !strings.Contains(addr, "://") {
		if checkAddress("-o", addr) != nil {
			addr = net.JoinHostPort(strings.Trim(addr, "[]"), influxPort)
		}
		if checkAddress("-o", addr) != nil {
			return "", fmt.Errorf("-o %q: write HOST, HOST:PORT or http://HOST:PORT/write?db=NAME", addr)
		}
		addr = "http://" + addr + "/write?db=gobtl"
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("-o %q: write HOST:PORT or http://HOST:PORT/write?db=NAME", addr)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/write"
		if u.RawQuery == "" {
			u.RawQuery = "db=gobtl"
		}
	}
	return u.String(), nil
}

// newParser returns the parser of the command line. The options --help and --version call exit,
// which must not return.
func newParser(c *cli, out, errs io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, usage.Bytes(), usage.Help(),
		kong.Name("btlstream"),
		kong.Description(cliDescription),
		kong.Writers(out, errs),
		kong.Exit(exit),
		kong.Vars{"influx_port": influxPort, "joiners": strconv.Itoa(joinersDefault)},
	)
}
