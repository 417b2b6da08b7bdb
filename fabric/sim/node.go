package sim

import (
	"slices"
	"strings"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// Process is the program that a node runs, for example a *btl.Module.
type Process interface {
	// Progress does the work of the process that is due at the virtual time "now".
	Progress(now mono.Time) (int, error)
	// Deadline returns the virtual time at which Progress must be called even if no datagram arrives.
	Deadline() mono.Time
}

// NodeFaults are the faults of a host. The zero value has no faults.
type NodeFaults struct {
	// PostAgain is the probability that a Post begins a series of consecutive Posts that return
	// ErrAgain. The length of a series of ErrAgain is a random number from 1 to AgainPosts. The first
	// Post of a series of ErrAgain might accept some of its sends before it returns ErrAgain.
	PostAgain  float64
	AgainPosts int
	// SendError is the probability that a send fails and its datagram is lost. The failing send
	// completes with an Errno. If the failing send is an injected send, Post returns the error.
	SendError float64
	// RecvError is the probability that an arriving datagram is lost and the receive completes with an
	// Errno.
	RecvError float64
	// LateSends is the longest time that a send can wait in the endpoint after Post, before its
	// datagram is sent and the send completes. The endpoint reads the bytes of a waiting send only
	// when it sends the datagram, as network hardware does. With LateSends, a test detects a caller
	// that reuses a buffer too early.
	LateSends time.Duration
	// QueueDatagrams replaces Config.QueueDatagrams for the receive queues of the node. If
	// NodeFaults.QueueDatagrams is 0, Config.QueueDatagrams applies.
	QueueDatagrams int
}

// Node is a host with one process.
type Node struct {
	nw     *Network
	name   string
	index  int
	dice   dice
	faults NodeFaults
	out    []*link // by index of the receiving node
	dom    *domain // nil: none is open
	opened bool    // Open was called before

	proc        Process
	run         uint64 // counts the calls of Run
	place       int    // index in Network.passes
	passAt      mono.Time
	wanted      mono.Time // time of the next call of Progress without SetPace
	passes      uint64
	lastPass    mono.Time
	pausedUntil mono.Time
	pace        time.Duration
	inPass      bool
	kicked      bool // Kick was called during the call of Progress
	againPosts  int  // rest of a series of ErrAgain
}

// Node returns the node with the given name, and creates the node if there is none. The name of a
// node has 1 to 32 printable bytes, and Node replaces an invalid name by a valid name. If the
// network already has 65536 nodes, Node creates no node, and returns the node that was created
// last.
func (nw *Network) Node(name string) *Node {
	name = nodeName(name)
	if n := nw.byName[name]; n != nil {
		return n
	}
	if len(nw.nodes) == maxNodes {
		return nw.nodes[maxNodes-1]
	}
	n := &Node{nw: nw, name: name, index: len(nw.nodes), passAt: mono.Never, wanted: mono.Never}
	n.dice = newDice(nw.cfg.Seed, diceNode, n.index, 0)
	nw.byName[name] = n
	nw.nodes = append(nw.nodes, n)
	nw.passes.add(n)
	return n
}

func nodeName(name string) string {
	if name == "" {
		return "node"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, name[:min(len(name), maxNodeNameBytes)])
}

// Nodes lists the nodes of the network in the order of their creation.
func (nw *Network) Nodes() []*Node { return slices.Clone(nw.nodes) }

// Name is the node's name.
func (n *Node) Name() string { return n.name }

// Index is the number of the node, counted from 0, and equals Port.Node in the Ports of the node.
func (n *Node) Index() int { return n.index }

// Open opens the node's domain. Open fails while the node already has an open domain. Calling Open
// again after Close or Crash simulates a restart of the process, whose endpoints get the same names
// as before.
func (n *Node) Open(cfg fabric.DomainConfig) (fabric.Domain, error) {
	if n.nw.closed {
		return nil, fabric.ErrClosed
	}
	if n.dom != nil {
		return nil, badConfig("node %s has an open domain", n.name)
	}
	d, err := newDomain(n, cfg)
	if err != nil {
		return nil, err
	}
	n.dom = d
	n.againPosts = 0
	kind := KindOpen
	if n.opened {
		kind = KindRestart
	}
	n.opened = true
	n.note(kind, nil)
	return d, nil
}

// Run makes "p" the process of the node, so that the node begins to call p.Progress. If "p" is nil,
// the node stops calling Progress.
func (n *Node) Run(p Process) {
	n.proc = p
	n.run++
	n.setPass(mono.Never)
	n.wanted = mono.Never
	if p != nil {
		n.Kick()
	}
}

// Kick makes the node call Progress of its process at the present virtual time.
func (n *Node) Kick() {
	n.kicked = n.inPass
	n.wake(n.nw.now)
}

// Crash ends the process of the node, as SIGKILL would. After Crash, the node no longer calls
// Progress, calls on the domain return ErrClosed, and datagrams in the receive queues are lost.
// Datagrams that were in transit when the process crashed are still delivered.
func (n *Node) Crash() {
	n.note(KindCrash, nil)
	n.Run(nil)
	if n.dom != nil {
		n.dom.shut()
	}
}

// Pause prevents the node from calling Progress for the time "d", as if the process were busy or
// stopped.
func (n *Node) Pause(d time.Duration) {
	n.note(KindPause, nil)
	n.pausedUntil = max(n.pausedUntil, n.nw.now.Add(d))
	if n.passAt != mono.Never {
		n.setPass(max(n.passAt, n.pausedUntil))
	}
}

// SetPace sets the shortest virtual time between two calls of Progress by the node. If the argument
// "d" of SetPace is 0, Config.PassCost applies.
func (n *Node) SetPace(d time.Duration) {
	n.pace = d
	if n.wanted != mono.Never {
		n.setPass(mono.Never)
		n.wake(n.wanted)
	}
}

// SetFaults replaces the NodeFaults of this node's simulated host.
func (n *Node) SetFaults(f NodeFaults) {
	n.faults = f
	if f.PostAgain <= 0 {
		n.againPosts = 0
	}
}

func (n *Node) queueDatagrams() int {
	if n.faults.QueueDatagrams > 0 {
		return n.faults.QueueDatagrams
	}
	return n.nw.cfg.QueueDatagrams
}

func (n *Node) note(kind Kind, err error) {
	p := Port{Node: n.index}
	n.nw.record(Event{Kind: kind, From: p, To: p, Err: err}, 0)
}

// The method "wake" makes the node call Progress at the time t. If the node is paused at the time
// t, or if the pace (see SetPace) does not permit a call at the time t, the node calls Progress at
// the earliest permitted time after t.
func (n *Node) wake(t mono.Time) {
	if n.proc == nil || n.inPass || t == mono.Never {
		return
	}
	n.wanted = n.wanted.Min(t)
	earliest := n.nw.now
	if n.passes > 0 {
		earliest = max(earliest, n.lastPass.Add(max(n.pace, n.nw.cfg.PassCost)))
	}
	n.setPass(n.passAt.Min(max(t, earliest, n.pausedUntil)))
}

func (n *Node) setPass(t mono.Time) {
	if n.passAt != t {
		n.passAt = t
		n.nw.passes.moved(n)
	}
}

func (n *Node) pass() {
	now, proc, run := n.nw.now, n.proc, n.run
	if n.passes > 0 && n.pace > n.nw.cfg.PassCost && now == n.lastPass.Add(n.pace) &&
		n.wanted < now {
		n.note(KindSlow, nil)
	}
	n.setPass(mono.Never)
	n.wanted = mono.Never
	n.lastPass = now
	n.passes++
	n.inPass, n.kicked = true, false
	_, err := proc.Progress(now)
	n.inPass = false
	if n.run != run { // crashed or replaced during the call of Progress
		n.wake(now)
		return
	}
	if err != nil {
		n.note(KindProcessError, err)
		n.Run(nil)
		return
	}
	if n.kicked || n.dom != nil && n.dom.pollable() {
		n.wake(now)
		return
	}
	n.wake(proc.Deadline())
}
