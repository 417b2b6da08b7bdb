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

// Two Nodes of one host find each other's shared memory through a Unix socket, whose name contains
// the UDP address at which one of them listens. The name is abstract (not a file), belongs to the
// network namespace, and vanishes with its process.
//
//	listens at 127.0.0.1:4000                          dials 127.0.0.1:4000
//	"@gobtl/USER/127.0.0.1:4000"    <---- card -----   Unix socket, if the address is of this host
//	                                ----- card ---->
//	module over shm                 <-- handshake --   module over shm, by the name in the card
//
// Each side accepts a card (an introduction of a Node to another Node) only from a process of its
// own user. The handshake uses /dev/shm, and thereby proves that both sides see the same /dev/shm.
// If any step fails, Dial uses UDP.

const (
	memoryProvider = "shm"
	// cardTime is the maximum duration of the exchange of cards, because a stopped process does not
	// answer.
	cardTime = time.Second
	// cardBytesMax is the maximum size of a card, in bytes.
	cardBytesMax = 4 << 10
	// cardsMax is the maximum number of stored cards of other Nodes.
	cardsMax = 64
	// visitorsMax is the maximum number of processes that exchange cards with a Node at the same
	// time. One more process replaces the process that has been connected for the longest time.
	visitorsMax = 64
)

// card introduces a Node to another Node on the same host.
type card struct {
	Module  string // the name of the module over shared memory, in hexadecimal
	Address string // the Node's own address over UDP
}

// cards holds the latest cards that a Node has received.
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

// addressOf returns the UDP address of the Node whose module has the given address, or the given
// address if no card contains it.
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

// sharesMemory reports whether the Node may use shared memory in addition to UDP.
func (n *Node) sharesMemory() bool { return n.overUDP() && n.cfg.SharedMemory }

// checkMemory returns ErrAddress if a Node over shared memory alone is given an address of UDP.
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

// memoryLink returns the Node's link over shared memory. If no link uses shared memory, or if the
// link has failed, memoryLink opens a new link.
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
// Node. If shared memory is not available, other Nodes use UDP.
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

// noMemory logs why shared memory is not used.
func (n *Node) noMemory(where string, err error) {
	if n.cfg.Log != nil {
		n.cfg.Log.Info("gobtl: no shared memory", "where", where, "reason", err)
	}
}

// doorName is the name of the Unix socket that belongs to a UDP address.
func doorName(address string) string { return fmt.Sprintf("@gobtl/%d/%s", userID(), address) }

// introduce exchanges cards with a Node that has connected to the Unix socket of an address. The
// other Node's card is stored before that Node can connect over shared memory.
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
	_ = memory.writeCard(visitor, address) // A visitor that is gone does not read it.
}

var errForeign = errors.New("gobtl: the Unix socket is of another user")

// readCard reads the card of another process. A process of another user is an error.
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

// writeCard writes the Node's own card, with the UDP address by which the peer knows the Node.
func (l *Link) writeCard(c net.Conn, address string) error {
	own := card{Module: hex.EncodeToString(l.module.Name()), Address: address}
	return json.NewEncoder(c).Encode(own)
}

// dialMemory connects to a target through shared memory, or returns the reason why that is not
// possible. The argument from of dialMemory is the link over UDP to the same target.
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

// isHere reports whether a target is the link's own address or a loopback address, which both are
// addresses of this host.
func (l *Link) isHere(t target) bool {
	return t.first != "" && (t.host == l.host || t.host.IsLoopback())
}

// peerAddress returns the address of an endpoint's peer, as a UDP address if possible.
func (l *Link) peerAddress(ep *btl.Endpoint) string {
	if l.memory {
		return l.cards.addressOf(ep.PeerAddress())
	}
	return shortAddress(ep.PeerAddress())
}
