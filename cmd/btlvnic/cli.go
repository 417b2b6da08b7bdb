//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/internal/usage"
	"gobtl/vnic"
	"gobtl/vnic/tap"
)

// cli is the command line, with one field for each command.
//
//nolint:lll // A struct tag cannot be broken.
type cli struct {
	usage.Own

	EM      emCmd    `cmd:"" name:"em" help:"Run the Ethernet Manager: distribute the switches of a file to all hosts, and follow changes of the file."`
	Agent   agentCmd `cmd:"" help:"Run a host's agent, which makes the network devices of the host's ports and carries their frames."`
	Check   checkCmd `cmd:"" help:"Check a manager's file."`
	Show    showCmd  `cmd:"" help:"Show the state of a running agent or manager."`
	PingMAC pingCmd  `cmd:"" name:"ping-mac" help:"Send echo requests over the switch to the agent of an Ethernet address."`
	Dump    dumpCmd  `cmd:"" help:"Write the frames of a port as pcapng."`
}

const cliDescription = `Virtual Ethernet switches over a fabric. A manager distributes the switches'
configuration, and an agent on each host makes the host's network interfaces. Nothing is encrypted
or authenticated.`

// fabricFlags holds the options that choose the fabric.
//
//nolint:lll // A struct tag cannot be broken.
type fabricFlags struct {
	Node     string `help:"Local address of the fabric: an address, or an interface such as eth0, and a port for management if wanted, as in 192.0.2.1:4000. Default: the provider's first, any port." placeholder:"ADDR"`
	Provider string `help:"Fabric provider. Default: ${default}." default:"udp" placeholder:"NAME"`
}

// info returns the first network that matches the options.
func (f *fabricFlags) info() (fabric.Info, error) {
	infos, err := f.infos()
	if err != nil {
		return fabric.Info{}, err
	}
	return infos[0], nil
}

// infos returns the networks that match the options, or an error if there is none.
func (f *fabricFlags) infos() ([]fabric.Info, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: f.Provider, Node: f.Node})
	if err == nil {
		return infos, nil
	}
	if f.Node != "" {
		if others, _ := fabric.GetInfo(fabric.Hints{Provider: f.Provider}); len(others) > 0 {
			var there []string
			for i := range others {
				there = append(there, others[i].Src)
			}
			return nil, fmt.Errorf("no fabric at --node %q: it is at %s", f.Node,
				strings.Join(there, ", "))
		}
	}
	return nil, fmt.Errorf("no fabric with --provider %s: %w", f.Provider, err)
}

// nameFlag is the name of a host or a manager.
type nameFlag string

// UnmarshalText returns an error for an invalid name.
func (n *nameFlag) UnmarshalText(text []byte) error {
	if !vnic.NameOK(string(text)) {
		return fmt.Errorf("%q: want 1 to %d printable characters without spaces", text,
			vnic.HostNameBytesMax)
	}
	*n = nameFlag(text)
	return nil
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
		return fmt.Errorf("%s %q: write HOST:PORT with a port up to 65535, as in 192.0.2.1:4789",
			what, addr)
	}
	return nil
}

// agentCmd is the command that runs an agent.
//
//nolint:lll // A struct tag cannot be broken.
type agentCmd struct {
	fabricFlags
	Host      nameFlag `required:"" help:"This host's name in the manager's file." placeholder:"NAME"`
	Manager   nameFlag `required:"" help:"The manager's name. The agent refuses other managers." placeholder:"NAME"`
	EM        []string `name:"em" required:"" help:"Address of the manager; several addresses are alternatives." placeholder:"HOST:PORT"`
	Queues    int      `help:"Number of queues of each device, and of threads in each direction. Default: ${default}." default:"1" placeholder:"N"`
	Device    string   `help:"Names of the devices; %d stands for the number of the port. Default: ${default}." default:"vnic%d" placeholder:"NAME"`
	FD        []string `name:"fd" help:"Descriptor of an open TAP device for a port, as PORT=FD. Repeat the flag for each queue." placeholder:"PORT=FD"`
	NoOffload bool     `help:"Turn segmentation and checksum offload of the TAP devices off."`
	Socket    string   `help:"Unix socket for the commands show, ping-mac and dump. Default: ${default}." default:"${agentSocket}" placeholder:"PATH"`
	Metrics   string   `help:"Serve Prometheus metrics on HOST:PORT/metrics." placeholder:"ADDR"`

	Impair string `help:"Faults of arriving packets, for tests: loss=1%,delay=2ms,dup=..,reorder=..,seed=7." placeholder:"FAULTS"`

	fds    map[uint8][]int
	faults *impair.Faults
}

// Validate is called by kong after parsing.
func (c *agentCmd) Validate() error {
	if c.Queues < 1 || c.Queues > min(vnic.LanesMax, tap.QueuesMax) {
		return fmt.Errorf("--queues must be 1 to %d", min(vnic.LanesMax, tap.QueuesMax))
	}
	marks := strings.Count(c.Device, "%")
	if marks > 1 || marks != strings.Count(c.Device, "%d") || len(c.Device) > 13 || c.Device == "" ||
		strings.ContainsAny(c.Device, "/ :") {
		return fmt.Errorf("--device %q: want 1 to 13 characters, %%d once for the port's number",
			c.Device)
	}
	if len(c.EM) == 0 && c.Host != "" { // kong reports missing options later
		return errors.New("--em: write HOST:PORT, as in 192.0.2.1:4790")
	}
	for _, addr := range c.EM {
		if addr == "" {
			addr = " " // an invalid address
		}
		if err := checkAddress("--em", addr); err != nil {
			return err
		}
	}
	if c.Impair != "" {
		faults, err := impair.Parse(c.Impair)
		if err != nil {
			return fmt.Errorf("--impair %s: %w", c.Impair, err)
		}
		c.faults = &faults
	}
	c.fds = make(map[uint8][]int)
	for _, text := range c.FD {
		port, fd, ok := strings.Cut(text, "=")
		p, err1 := strconv.ParseUint(port, 10, 8)
		n, err2 := strconv.ParseUint(fd, 10, 31)
		if !ok || err1 != nil || err2 != nil || p == 0 || n < 3 {
			return fmt.Errorf("--fd %q: write PORT=FD, as in 1=3", text)
		}
		if _, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err != nil {
			return fmt.Errorf("--fd %s: nobody has handed over descriptor %d: %w", text, n, err)
		}
		c.fds[uint8(p)] = append(c.fds[uint8(p)], int(n))
	}
	return checkAddress("--metrics", c.Metrics)
}

// emCmd is the command that runs the manager.
//
//nolint:lll // A struct tag cannot be broken.
type emCmd struct {
	fabricFlags
	File    string `arg:"" help:"The manager's file."`
	Listen  string `help:"HOST:PORT at which the manager listens for agents. Default: ${default}." default:":4790" placeholder:"ADDR"`
	Socket  string `help:"Unix socket for the command show. Default: ${default}." default:"${emSocket}" placeholder:"PATH"`
	Metrics string `help:"Serve Prometheus metrics on HOST:PORT/metrics." placeholder:"ADDR"`
}

// Validate is called by kong after parsing.
func (c *emCmd) Validate() error {
	return errors.Join(checkAddress("--listen", c.Listen), checkAddress("--metrics", c.Metrics))
}

// errPort is the error for a number that is not a port number.
var errPort = errors.New("a port's number is 1 to 255")

// checkCmd is the command that checks a manager's file.
type checkCmd struct {
	File string `arg:"" help:"The manager's file."`
}

// askFlags holds the options for the output format.
//
//nolint:lll // A struct tag cannot be broken.
type askFlags struct {
	Format string `help:"text, or json: one document. Default: ${default}." default:"text" enum:"text,json" placeholder:"NAME"`
}

// showCmd is the command that shows a list.
//
//nolint:lll // A struct tag cannot be broken.
type showCmd struct {
	Socket string `help:"Unix socket of the agent or manager. Default: ${emSocket} for hosts, switches and traps; ${agentSocket} for everything else." placeholder:"PATH"`
	askFlags
	What string `arg:"" enum:"agent,ports,macs,counters,fdb,hosts,switches,traps" help:"What to show. Of an agent: agent, ports, macs, counters, fdb. Of a manager: hosts, switches, traps."`
	All  bool   `short:"a" help:"Show counters that are zero, too."`
}

// pingCmd is the command that sends probes.
//
//nolint:lll // A struct tag cannot be broken.
type pingCmd struct {
	Socket string `help:"The agent's unix socket. Default: ${default}." default:"${agentSocket}" placeholder:"PATH"`
	askFlags
	MAC      string        `arg:"" help:"The Ethernet address of a port."`
	Port     int           `help:"Number of the sending port, 1 to 255. Default: ${default}." default:"1" placeholder:"N"`
	Count    int           `short:"c" help:"Number of requests. Default: ${default}." default:"3" placeholder:"N"`
	Interval time.Duration `help:"Time between two requests. Default: ${default}." default:"200ms" placeholder:"TIME"`
	Timeout  time.Duration `help:"Longest time for an answer. Default: ${default}." default:"1s" placeholder:"TIME"`
}

// Validate is called by kong after parsing.
func (c *pingCmd) Validate() error {
	mac, err := vnic.ParseMAC(c.MAC)
	switch {
	case err != nil:
		return err
	case mac.Group():
		return fmt.Errorf("%s is a group address: ask for one port's", c.MAC)
	case c.Port < 1 || c.Port > vnic.VportMax:
		return errPort
	case c.Count < 1 || c.Timeout <= 0 || c.Interval < 0:
		return errors.New("--count and --timeout must be positive, --interval 0 or more")
	}
	return nil
}

// dumpCmd is the command that captures the frames of a port.
//
//nolint:lll // A struct tag cannot be broken.
type dumpCmd struct {
	Socket   string        `help:"The agent's unix socket. Default: ${default}." default:"${agentSocket}" placeholder:"PATH"`
	Port     int           `arg:"" help:"Number of the port, 1 to 255."`
	Output   string        `short:"o" help:"File to write; - is standard output." default:"-" placeholder:"FILE"`
	Duration time.Duration `help:"Stop after so long. Default: when interrupted." placeholder:"TIME"`
}

// Validate is called by kong after parsing.
func (c *dumpCmd) Validate() error {
	if c.Port < 1 || c.Port > vnic.VportMax {
		return errPort
	}
	if c.Duration < 0 {
		return errors.New("--duration must be positive")
	}
	return nil
}

// newParser returns the parser of the command line. The option --help calls exit, which must not
// return.
func newParser(c *cli, env *environment, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, usage.Bytes(), usage.Help(),
		kong.Name("btlvnic"),
		kong.Description(cliDescription),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(exit),
		kong.Vars{"agentSocket": agentSocket, "emSocket": emSocket},
		kong.Bind(env),
	)
}

// The constants below are the default sockets on which agents and managers answer requests.
const (
	agentSocket = "/run/btlvnic/agent.sock"
	emSocket    = "/run/btlvnic/em.sock"
)
