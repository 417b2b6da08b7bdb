package gobtl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/net" // provider "net"
	_ "gobtl/fabric/ofi" // providers "ofi/..."
	_ "gobtl/fabric/shm" // provider "shm"
	_ "gobtl/fabric/udp" // provider "udp"
	"gobtl/internal/bounded"
)

// The errors below can be tested with errors.Is. The errors of peers and of the transport are
// defined in the packages btl, call, conn and queue.
var (
	// ErrAddress means that an address is malformed, that an address to listen at does not belong to
	// this host, or that it stands for more than 32 local addresses.
	ErrAddress = errors.New("gobtl: bad address")
	// ErrClosed means that the Node was closed.
	ErrClosed = errors.New("gobtl: node is closed")
	// ErrTag means that a tag is larger than TagMax.
	ErrTag = errors.New("gobtl: no such tag")
	// ErrNode means that a Node is nil or the zero value, as after a call of Listen or Open that
	// returned nil and an error.
	ErrNode = errors.New("gobtl: no Node: was the error of Listen or Open checked?")
	// ErrPeer means that a Peer is nil or the zero value, as after a call of Dial that has failed.
	ErrPeer = errors.New("gobtl: no Peer: was the error of Dial checked?")
	// ErrRegion means that a Region is nil or the zero value, as after a call of Expose that has
	// failed.
	ErrRegion = errors.New("gobtl: no Region: was the error of Expose checked?")
)

// The constants below are the tags that a Node uses for its own layers.
const (
	tagCalls   = btl.TagMax
	tagStreams = btl.TagMax - 1
	tagQueue   = btl.TagMax - 2
)

// TagMax is the largest tag for a message of the program. A Node uses the tags above TagMax for its
// own layers.
const TagMax = btl.TagMax - 3

// Config configures Listen and Open. The zero value is a good default. A Config can be used for
// several Nodes.
type Config struct {
	// Provider is the name of the network provider in the registry of package fabric. An empty
	// Provider means "udp" on Linux, and "net" on other systems. Nodes with "udp" and Nodes with
	// "net" can communicate. With providers other than "udp" and "net", a Node uses the provider's
	// first device.
	Provider string
	// SharedMemory makes a Node use shared memory (provider "shm") for peers on its own host that have
	// the same setting. The two Nodes must belong to the same user and see the same /dev/shm. If
	// shared memory is not possible, the Nodes use UDP. Peer.Network returns the provider in use. The
	// limits of Transport, such as PeersMax, apply to UDP and to shared memory separately. Over shared
	// memory, a Node detects the death of a peer only after Transport.PeerTimeout, even if the peer's
	// program has been restarted.
	SharedMemory bool
	// Transport is the configuration of the transport. Environment variables (GOBTL_..., see
	// btl.Param) override the values in Transport. A Node behind a NAT can set Transport.Advertise to
	// its public address, provided that the Node listens at a single address.
	Transport btl.Config
	// Runner configures how the goroutines of the Node wait for the network.
	Runner runner.Config
	// Calls limits the calls that peers may make at the same time. The field Calls.Tag is not used.
	Calls call.Config
	// Streams limits the number of streams and their memory. The field Streams.Tag is not used.
	Streams conn.Config
	// Queue limits the messages that wait for Take. The field Queue.Tag is not used.
	Queue queue.Config
	// Log receives a line when a handler has delayed the network for longer than Runner.LongPass, and
	// a line for each peer that connects or disconnects. On Linux the line about a slow handler has
	// the level Info instead of Warn if other processes seem to have used the CPU during the delay. If
	// Log is nil, nothing is logged.
	Log *slog.Logger
	// Setup, which may be nil, registers the handlers of a new Node. Listen and Open call Setup once,
	// when the addresses of the Node are known and before the first peer connects, so that no peer
	// gets the error of a missing handler. Peers that dial while Setup runs wait until Setup has
	// returned. Setup must not wait for a peer that might itself be waiting for this Node. If Setup
	// returns an error, Listen or Open closes the Node and returns the error.
	Setup func(n *Node) error
	// OnPeer, which may be nil, is called when a peer has connected, no matter which side has dialled.
	// When the connection has ended, OnPeer is called a second time, with the reason. A Dial that
	// fails does not call OnPeer. OnPeer runs on the goroutine that drives the network, and must not
	// wait. A panic of OnPeer ends the process, like a panic of a MessageHandler.
	OnPeer func(p *Peer, event btl.Event, err error)
}

// Node connects this program to the network. Only Listen and Open make a usable Node. Methods of a
// nil Node or of the zero Node return ErrNode if they have an error result, and otherwise zero
// values. Any goroutine may call the methods of a Node.
type Node struct {
	cfg Config

	opening  sync.Mutex // held while a link is opened for a Dial
	mu       sync.Mutex // guards the following fields up to taking
	links    []*Link
	listens  bool
	ready    bool // Config.Setup has returned: links accept peers
	closed   bool
	handlers map[string]Handler
	tags     map[btl.Tag]bool // tags that have, or had, a MessageHandler
	taking   bool

	messages [TagMax + 1]atomic.Pointer[MessageHandler]
	accepted chan net.Conn // streams that peers have opened
	taken    chan Message  // queued messages of all links, for Take
	done     chan struct{} // closed by Close
	// peerLines limits the number of lines about peers in Config.Log per second.
	peerLines bounded.Rate
	work      sync.WaitGroup // goroutines that accept and take at the links
}

// Listen makes a Node that peers can reach at an address of this host. Examples are
// "192.0.2.1:4000", "name:4000", ":4000" for all present addresses of this host, and "eth0:4000"
// for the addresses of a device. For port 0, Listen chooses two free consecutive ports, and Address
// contains the first of these ports. The Node uses the given port and the port after it.
func Listen(address string) (*Node, error) { return Config{}.Listen(address) }

// Open makes a Node for a program that only dials. The system chooses the ports of the Node when
// the Node dials.
func Open() (*Node, error) { return Config{}.Open() }

// Open makes a Node like the function Open, with this configuration.
func (c Config) Open() (*Node, error) {
	n, err := c.newNode()
	if err != nil {
		return nil, err
	}
	if err := n.setUp(); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	return n, nil
}

// newNode makes a Node without links.
func (c Config) newNode() (*Node, error) {
	if c.Provider == "" {
		c.Provider = fabric.Sockets()
	}
	if _, err := c.Transport.LoadEnv(os.Environ()); err != nil {
		return nil, fmt.Errorf("gobtl: the environment: %w", err)
	}
	if err := checkTimes(&c.Transport); err != nil {
		return nil, err
	}
	return &Node{
		cfg: c, handlers: map[string]Handler{}, tags: map[btl.Tag]bool{},
		accepted: make(chan net.Conn), taken: make(chan Message), done: make(chan struct{}),
	}, nil
}

// overUDP reports whether the Node's provider uses UDP sockets.
func (n *Node) overUDP() bool { return fabric.OverSockets(n.cfg.Provider) }

// Listen makes a Node like the function Listen, with this configuration.
func (c Config) Listen(address string) (*Node, error) {
	n, err := c.newNode()
	if err != nil {
		return nil, err
	}
	n.listens = true
	if err := n.listen(address); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	n.offerMemory()
	if err := n.setUp(); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	return n, nil
}

// portTries is the maximum number of pairs of ports that Listen tries for port 0.
const portTries = 32

// The method "listen" opens a link for each address of this host that the argument "text" stands
// for.
func (n *Node) listen(text string) error {
	if !n.overUDP() {
		if err := n.checkMemory(text); err != nil {
			return err
		}
		hints := fabric.Hints{Provider: n.cfg.Provider, Node: text}
		_, err := n.openLink(hints, n.cfg.Transport.Advertise)
		return err
	}
	local, err := localAddresses(n.cfg.Provider, text)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		port := local.port
		if port == 0 {
			if port, err = freePort(local.hosts[0]); err != nil {
				return fmt.Errorf("gobtl: no free port at %s: %w", local.hosts[0], inner(err))
			}
		}
		err = n.listenAt(local.hosts, port)
		if err == nil || local.port != 0 || try == portTries || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
}

// listenAt opens a link at the given port of each local address. If a link cannot be opened,
// listenAt closes all links of the Node, and returns the error.
func (n *Node) listenAt(hosts []string, port uint16) error {
	advertised := n.cfg.Transport.Advertise
	if advertised != "" && len(hosts) > 1 {
		return fmt.Errorf("%w: Transport.Advertise, %s, needs one address to listen at, not %s",
			ErrAddress, advertised, strings.Join(hosts, ", "))
	}
	for _, host := range hosts {
		node := joinHostPort(host, port)
		_, err := n.openLink(fabric.Hints{Provider: n.cfg.Provider, Node: node}, advertised)
		if err != nil {
			err = fmt.Errorf("gobtl: listen at %s (UDP ports %d and %d): %w", node, port, port+1,
				inner(err))
			return errors.Join(err, n.closeLinks(context.Background()))
		}
	}
	return nil
}

// Address returns the first element of Addresses, or "" if the Node does not listen.
func (n *Node) Address() string {
	if all := n.Addresses(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Addresses returns the addresses at which peers reach this Node. Addresses that other hosts
// can reach come first. The list is empty if the Node does not listen.
func (n *Node) Addresses() []string {
	if n.none() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.listens {
		return nil
	}
	all := make([]string, 0, len(n.links))
	for _, l := range n.links {
		if !l.memory {
			all = append(all, l.Address())
		}
	}
	return all
}

// Links returns the links of the Node, one for each local address in use. A Node that Open has made
// has no link before its first Dial.
func (n *Node) Links() []*Link {
	if n.none() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Link(nil), n.links...)
}

// Stats returns the counters of the Node's links, as a map from the address of a link to its
// counters. The package btl/btlprom exports the counters of Stats to Prometheus.
func (n *Node) Stats() map[string]btl.Stats {
	stats := map[string]btl.Stats{}
	for _, l := range n.Links() {
		stats[l.Address()] = l.run.Stats()
	}
	return stats
}

// The method "none" reports whether the Node is nil or the zero Node.
func (n *Node) none() bool { return n == nil || n.done == nil }

// Close cancels the contexts of the running handlers, waits for the handlers' answers, and then
// waits until all sent data is acknowledged. If ctx is cancelled, Close stops waiting, and returns
// the error of ctx.
//
// Close waits only for peers that still answer. If a peer acknowledges nothing for
// Config.Transport.CloseTimeout (1 s by default), its connection ends with unacknowledged data. An
// answer of a handler that is not sent within one second of the beginning of Close can be lost. The
// unsent bytes of streams are lost if no byte could be sent for one second, or after ten seconds.
// Close reports none of these losses. A message has arrived for certain if Send or Call has
// returned without an error.
//
// Close makes all waiting method calls of the Node return an error. A method call that waits for a
// MessageHandler or for OnPeer ends only when this callback has returned. Further calls of Close do
// nothing. Inside a Handler, a MessageHandler or OnPeer, Close returns runner.ErrInHandler and has
// no effect, because Close would wait for its own caller. A callback or Handler can start a
// goroutine that calls Close. While a Handler of this Node runs, Close returns runner.ErrInHandler
// even if a Handler of another Node calls it.
func (n *Node) Close(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	if n.none() {
		return ErrNode
	}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.mu.Unlock()
	if n.inCallback() {
		return runner.ErrInHandler
	}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	close(n.done)
	n.mu.Unlock()
	return n.closeLinks(ctx)
}

// inCallback reports whether the caller runs inside a callback or a Handler of the Node.
func (n *Node) inCallback() bool {
	if n.inRunnerCallback() {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.links, func(l *Link) bool { return l.calls.InHandler() })
}

// inRunnerCallback reports whether the caller runs inside a callback of one of the Node's Runners,
// such as a MessageHandler or OnPeer. A method that waits for a Runner would wait for ever there. A
// Handler is no such callback, because it runs on its own goroutine.
func (n *Node) inRunnerCallback() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.links, func(l *Link) bool { return l.run.InCallback() })
}

// closeLinks closes all links at the same time, and waits for their goroutines to end.
func (n *Node) closeLinks(ctx context.Context) error {
	n.mu.Lock()
	links := n.links
	n.links = nil
	n.mu.Unlock()
	errs := make([]error, len(links))
	var wait sync.WaitGroup
	for i, l := range links {
		wait.Go(func() { errs[i] = l.close(ctx) })
	}
	wait.Wait()
	for _, l := range links {
		if !l.ended() { // A callback has not returned, and goroutines of the link wait for it.
			return errors.Join(errs...)
		}
	}
	n.work.Wait()
	return errors.Join(errs...)
}
