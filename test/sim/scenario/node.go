package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gobtl/btl"
	"gobtl/test/sim/cluster"
)

// node is a host of the script, with or without a running module.
type node struct {
	*cluster.Host

	w        *world
	name     string
	index    int
	cfg      nodeConfig
	lives    [][]byte // names of its modules
	draws    uint32
	regions  []*btl.Region
	handlers map[btl.Tag]bool // in force in every life
	sides    []*side          // of this life, in order of their making
	arrived  int
	lastFrom string // whose packet came last
	quiet    bool   // writes no more notes
}

// side is an endpoint, which is one side of a connection.
type side struct {
	route

	ep        *btl.Endpoint
	connected bool
	end       string // "closed", "failed"; "" while it lives
	err       error
	flushes   int // calls of Flush that wait
}

// handledTags is the number of tags, from 1 on, that have handlers at the beginning.
const handledTags = 9

// open starts a module on the node.
func (n *node) open() error {
	cfg := n.cfg.btl
	cfg.SetLimits(n.cfg.limits)
	cfg.Random = n.random
	if err := n.Open(cfg); err != nil {
		return err
	}
	n.lives = append(n.lives, n.Mod.Name())
	n.w.nameLife(n)
	n.sides, n.regions, n.quiet = nil, nil, false
	n.Mod.OnEndpoint(n.onEndpoint)
	if n.handlers == nil {
		n.handlers = map[btl.Tag]bool{}
		for tag := range btl.Tag(handledTags) {
			n.handlers[tag+1] = true
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(n.handlers)) {
		if err := n.handle(tag, n.handlers[tag]); err != nil {
			return err
		}
	}
	n.Start(n.judge)
	return nil
}

// random gives a module its random numbers. Each number has the node's first sequence number in its
// lower half. The upper half, from which tags, incarnations and first fragment ids are made, has
// unique bits, or the node's first fragment id if the scenario has set one.
func (n *node) random() uint64 {
	n.draws++
	high := uint32(n.index+1)<<8 | n.draws&0xff | n.draws>>8<<12
	if n.Mod != nil && n.cfg.hasFragID {
		high = n.cfg.fragID
	}
	return uint64(high)<<32 | uint64(n.cfg.first)
}

// judge checks the module after every poll.
func (n *node) judge(got int, err error) (int, error) {
	if err != nil {
		n.w.fail("%s: %w", n.name, err)
	} else {
		n.check()
	}
	return got, err
}

// pass polls the module until no more packets arrive.
func (n *node) pass() {
	const passesMax = 8
	for range passesMax {
		if got, err := n.Progress(n.w.net.Now()); got == 0 || err != nil {
			return
		}
	}
}

func (n *node) check() {
	if err := n.Mod.Check(); err != nil {
		n.w.fail("%s: check: %w", n.name, err)
	}
	if s := n.Mod.Stats(); s.Unaccounted() != 0 {
		n.w.fail("%s: %d packets received that no counter explains", n.name, s.Unaccounted())
	}
}

func (n *node) note(format string, args ...any) {
	if !n.quiet {
		n.w.trace.Note(n.w.net.Now(), n.name, fmt.Sprintf(format, args...))
	}
}

// crash ends the node without a goodbye.
func (n *node) crash() {
	if n.Mod == nil {
		return
	}
	n.Crash()
	n.forget("crashed")
}

// forget ends an incarnation, whose sends are no longer reported.
func (n *node) forget(how string) {
	for _, s := range n.sides {
		if s.end == "" {
			s.end, s.err = how, nil
		}
	}
	for _, m := range n.w.msgs {
		if m.route.from == n.name && m.state == statePending {
			m.state = stateForgotten
		}
	}
}

func (n *node) handle(tag btl.Tag, on bool) error {
	n.handlers[tag] = on
	if n.Mod == nil {
		return nil
	}
	if !on {
		return n.Mod.Handle(tag, nil)
	}
	return n.Mod.Handle(tag, n.receive)
}

func (n *node) expose(size int) error {
	if n.Mod == nil {
		return n.w.errorf("%s is down", n.name)
	}
	r, err := n.Mod.Expose(make([]byte, size), btl.RemoteWrite)
	if err == nil {
		n.regions = append(n.regions, r)
	}
	return err
}

// onEndpoint handles the events of endpoints.
func (n *node) onEndpoint(ep *btl.Endpoint, ev btl.Event, err error) {
	s := n.side(ep)
	if s == nil { // opened by the peer
		s = n.addSide(ep, n.lastFrom)
	}
	switch {
	case s.end != "":
		n.w.fail("%v: an event after the last one", s.route)
	case ev == btl.EventConnected:
		if s.connected {
			n.w.fail("%v connected twice", s.route)
		}
		s.connected = true
		n.note("connected to %s", s.to)
		return
	case ev == btl.EventClosed:
		s.end = "closed"
	default:
		s.end = "failed"
	}
	s.err = err
	n.note("connection to %s %s%s", s.to, s.end, because(err))
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + errorName(err)
}

func (n *node) side(ep *btl.Endpoint) *side {
	for _, s := range n.sides {
		if s.ep == ep {
			return s
		}
	}
	return nil
}

func (n *node) addSide(ep *btl.Endpoint, to string) *side {
	s := &side{route: route{n.name, to}, ep: ep}
	n.sides = append(n.sides, s)
	n.w.sides[s.route] = s
	return s
}

// errorNames holds the errors that a script can name.
var errorNames = []struct {
	name string
	err  error
}{
	{"ErrAgain", btl.ErrAgain},
	{"ErrClosed", btl.ErrClosed},
	{"ErrPeerClosed", btl.ErrPeerClosed},
	{"ErrPeerDead", btl.ErrPeerDead},
	{"ErrPeerRestarted", btl.ErrPeerRestarted},
	{"ErrUnreachable", btl.ErrUnreachable},
	{"ErrVersion", btl.ErrVersion},
	{"ErrStale", btl.ErrStale},
	{"ErrRefused", btl.ErrRefused},
	{"ErrBadName", btl.ErrBadName},
	{"ErrTooLarge", btl.ErrTooLarge},
	{"ErrTag", btl.ErrTag},
	{"ErrNoHandler", btl.ErrNoHandler},
	{"ErrRemoteAccess", btl.ErrRemoteAccess},
	{"ErrState", btl.ErrState},
	{"ErrLost", btl.ErrLost},
}

func errorName(err error) string {
	for _, e := range errorNames {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return err.Error()
}
