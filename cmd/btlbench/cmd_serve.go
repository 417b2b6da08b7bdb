package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/session"
)

// defaultPort is the TCP port of the command serve if no port is given.
const defaultPort = "4711"

// memoryDefault is the memory of the command serve for the contents of messages. The 18 streams
// that one host can have by default get enough of it for all default sizes and windows, with
// --verify.
const memoryDefault = min(3<<30, plan.SizeBytesMax)

// serveCmd waits for clients and serves them.
//
//nolint:lll // A struct tag cannot be broken.
type serveCmd struct {
	Listen  string        `help:"HOST:PORT to listen on for clients; port 0 picks one. Default: ${default}." default:":${port}" placeholder:"ADDR"`
	Once    bool          `help:"End after the first client, including all its streams."`
	Clients int           `help:"Largest number of clients at the same time; each of a client's --parallel streams counts as one. One host (with IPv6, one network of 64 bits) gets at most three quarters. Default: ${default}." default:"24" placeholder:"N"`
	Node    string        `help:"Local address for the fabric. Default: the address to which the client connected." placeholder:"ADDR"`
	CPUs    plan.CPUList  `name:"cpus" help:"CPUs to pin to, each client to one in turn. Default: none." placeholder:"LIST"`
	Set     []string      `help:"Set an option of the transport on this side, which overrides the client's --set. Repeatable." placeholder:"NAME=VALUE" sep:"none"`
	Metrics string        `help:"Serve Prometheus metrics of this side on HOST:PORT/metrics." placeholder:"ADDR"`
	Timeout time.Duration `help:"Time for a client to introduce itself." default:"5s"`

	Memory plan.Bytes `help:"Memory for the contents of the messages of all clients together, at most 4294967295 bytes. One host gets at most three quarters. 0 means no limit. Messages that have arrived in part do not count: each client has up to reassembly_bytes_max (--set, 2G) of them. Default: ${default}." default:"${memory}" placeholder:"SIZE"`

	Patience time.Duration `help:"Longest time-out that a client may ask for." default:"1m"`

	// The flag --quiet is for the command pair, which starts the command serve as its server.
	Quiet bool         `help:"Say nothing about clients." hidden:""`
	Avoid plan.CPUList `help:"CPUs of hot loops: other threads keep off them." hidden:""`
}

// Validate is called by kong after parsing.
func (c *serveCmd) Validate() error {
	if c.Timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	if c.Patience <= 0 {
		return errors.New("--patience must be positive")
	}
	if c.Clients < 1 || c.Clients > session.ClientsMax {
		return fmt.Errorf("--clients must be 1 to %d", session.ClientsMax)
	}
	if err := checkAddress("--listen", c.Listen); err != nil {
		return err
	}
	f := plan.Flags{Set: c.Set}
	if err := f.ValidateSet(); err != nil {
		return err
	}
	return checkAddress("--metrics", c.Metrics)
}

func (c *serveCmd) options() session.Options {
	return session.Options{
		Node: c.Node, CPUs: c.CPUs, Timeout: c.Timeout, Set: c.Set, Patience: c.Patience,
	}
}

// Run is called by kong.
func (c *serveCmd) Run(env *environment) error {
	if err := layers.CheckNode(c.Node); err != nil {
		return err
	}
	keepRuntimeOff(append(c.Avoid, c.CPUs...))
	metrics, err := serveMetrics(env, c.Metrics)
	if err != nil {
		return err
	}
	defer metrics.close()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen",
			c.Listen, err)
	}
	log, served := env.notef, &servedWriter{w: env.stdout}
	if c.Quiet {
		log, served.w = func(string, ...any) {}, io.Discard
	}
	s := session.NewServer(c.options(), session.ServerConfig{
		Clients: c.Clients, Once: c.Once, Memory: int64(c.Memory),
		Opened: metrics.watch, Log: log, Served: served.write,
	})
	if _, err := fmt.Fprintln(env.stdout, listeningPrefix+listener.Addr().String()); err != nil {
		return err
	}
	err = cmp.Or(s.Serve(env.ctx, listener), served.err)
	if c.Quiet && err != nil {
		return &toldError{err}
	}
	return err
}

// listeningPrefix is the beginning of the line with the server's address, which the command pair
// reads.
const listeningPrefix = "listening on "
