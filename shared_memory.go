package gobtl

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/bounded"
)

// Two Nodes of one host find each other's shared memory through a Unix socket. The name of the
// socket contains the UDP address at which the listening Node listens. The name of the socket is
// abstract (not a file), belongs to the network namespace, and vanishes when the listening process
// ends.
//
//	listens at 127.0.0.1:4000                          dials 127.0.0.1:4000
//	"@gobtl/USER/127.0.0.1:4000"    <---- card -----   Unix socket, if the address is of this host
//	                                ----- card ---->
//	module over shm                 <-- handshake --   module over shm, by the name in the card
//
// Each side accepts a card (a message with the name of a Node's module over shared memory, and the
// Node's UDP address) only from a process of its own user. Because the handshake itself uses
// /dev/shm, a completed handshake proves that both sides see the same /dev/shm. If the exchange of
// cards or the handshake fails, Dial uses UDP.

const (
	memoryProvider = "shm"
	// cardTime is the maximum duration of the exchange of cards. The limit cardTime is needed because
	// a stopped process does not answer.
	cardTime = time.Second
	// cardBytesMax is the maximum size of a card, in bytes.
	cardBytesMax = 4 << 10
	// cardsMax is the maximum number of stored cards of other Nodes.
	cardsMax = 64
	// visitorsMax is the maximum number of processes that exchange cards with a Node at the same time.
	// If one more process connects, the Node closes the oldest of the visitorsMax connections.
	visitorsMax = 64
)

// The type "card" introduces a Node to another Node on the same host.
type card struct {
	Module  string // the name of the module over shared memory, in hexadecimal
	Address string // the Node's own address over UDP
}

// The type "cards" contains the latest cards (introductions of other Nodes) that a Node has
// received.
type cards struct {
	mu   sync.Mutex
	list []card
}

func (c *cards) add(one card) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) == cardsMax {
		c.list = append(c.list[:0], c.list[1:]...)
	}
	c.list = append(c.list, one)
}

// addressOf returns the UDP address of the Node whose module has the given shared-memory address,
// or the argument "module" itself if no stored card contains this shared-memory address.
func (c *cards) addressOf(module string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.list) - 1; i >= 0; i-- {
		if strings.Contains(c.list[i].Module, module) {
			return c.list[i].Address
		}
	}
	return module
}

// sharesMemory reports whether the Node's Config allows shared memory in addition to UDP.
func (n *Node) sharesMemory() bool { return n.overUDP() && n.cfg.SharedMemory }

// checkMemory returns ErrAddress if a Node that uses only shared memory is given a UDP address, and
// nil otherwise.
func (n *Node) checkMemory(address string) error {
	if n.cfg.Provider != memoryProvider {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil
	}
	return fmt.Errorf("%w: %q: provider %s alone has no such addresses: leave Config.Provider empty "+
		"and set Config.SharedMemory", ErrAddress, address, memoryProvider)
}

// memoryLink returns the Node's link over shared memory. If the Node has no link over shared
// memory, or if the link has failed, memoryLink opens a new link.
func (n *Node) memoryLink() (*Link, error) {
	n.opening.Lock()
	defer n.opening.Unlock()
	for _, l := range n.Links() {
		switch {
		case !l.memory:
		case !l.ended():
			return l, nil
		default:
			n.abandon(l)
		}
	}
	return n.openLink(fabric.Hints{Provider: memoryProvider}, "")
}

// offerMemory lets other Nodes of this host use shared memory when they dial an address of this
// Node. If shared memory is not available, the Nodes that dial this Node use UDP.
func (n *Node) offerMemory() {
	if !n.sharesMemory() {
		return
	}
	if _, err := n.memoryLink(); err != nil {
		n.noMemory("this host", err)
		return
	}
	for _, l := range n.Links() {
		if l.memory {
			continue
		}
		door, err := net.Listen("unix", doorName(l.Address()))
		if err != nil {
			n.noMemory(l.Address(), err)
			continue
		}
		l.door = bounded.NewListener(door, visitorsMax, "")
		n.work.Go(func() {
			l.door.Serve(func(visitor *bounded.Guest) { n.introduce(visitor.Conn, l.Address()) })
		})
	}
}

// noMemory writes to the log why the Node does not use shared memory.
func (n *Node) noMemory(where string, err error) {
	if n.cfg.Log != nil {
		n.cfg.Log.Info("gobtl: no shared memory", "where", where, "reason", err)
	}
}

// doorName returns the name of the Unix socket for exchanging cards with the Node that listens at a
// UDP address.
func doorName(address string) string { return fmt.Sprintf("@gobtl/%d/%s", userID(), address) }

// The method "introduce" exchanges cards with another Node that has connected to the Unix socket
// for the given address. The card of the connected Node is stored before that Node can dial this
// Node over shared memory.
func (n *Node) introduce(visitor net.Conn, address string) {
	theirs, err := readCard(visitor)
	if err != nil {
		return
	}
	memory, err := n.memoryLink()
	if err != nil {
		n.noMemory(address, err)
		return
	}
	memory.cards.add(theirs)
	_ = memory.writeCard(visitor, address) // The visitor might be gone.
}

var errForeign = errors.New("gobtl: the Unix socket is of another user")

// readCard reads the card of another process, and returns an error if the process belongs to
// another user.
func readCard(c net.Conn) (theirs card, err error) {
	if err := c.SetDeadline(time.Now().Add(cardTime)); err != nil {
		return card{}, err
	}
	if !sameUser(c) {
		return card{}, errForeign
	}
	err = json.NewDecoder(io.LimitReader(c, cardBytesMax)).Decode(&theirs)
	return theirs, err
}

// writeCard sends this Node's card, in which the argument "address" is the Node's UDP address.
func (l *Link) writeCard(c net.Conn, address string) error {
	own := card{Module: hex.EncodeToString(l.module.Name()), Address: address}
	return json.NewEncoder(c).Encode(own)
}

// dialMemory connects to a target through shared memory, or returns an error that says why shared
// memory cannot be used. The argument "from" of dialMemory is the UDP link to the same target.
func (n *Node) dialMemory(ctx context.Context, t target, from *Link) (*Peer, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", doorName(t.first))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // ends the exchange of cards
	memory, err := n.memoryLink()
	if err != nil {
		return nil, err
	}
	if !sameUser(c) {
		return nil, errForeign
	}
	if err := memory.writeCard(c, from.Address()); err != nil {
		return nil, err
	}
	theirs, err := readCard(c)
	if err != nil {
		return nil, err
	}
	name, err := hex.DecodeString(theirs.Module)
	if err != nil {
		return nil, err
	}
	memory.cards.add(card{Module: theirs.Module, Address: t.first})
	ep, err := memory.run.Connect(ctx, name)
	if err != nil {
		return nil, err
	}
	return memory.peerOf(ep), nil
}

// isHere reports whether a target is on this host. A target is on this host if its IP address is
// that of the link or a loopback address.
func (l *Link) isHere(t target) bool {
	return t.first != "" && (t.host == l.host || t.host.IsLoopback())
}

// peerAddress returns the address of an endpoint's peer. For a peer over shared memory, peerAddress
// returns the peer's UDP address if the peer's card is stored, and otherwise the peer's
// shared-memory address.
func (l *Link) peerAddress(ep *btl.Endpoint) string {
	if l.memory {
		return l.cards.addressOf(ep.PeerAddress())
	}
	return shortAddress(ep.PeerAddress())
}
