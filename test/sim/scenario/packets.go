package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/fabric/sim"
)

// kinds holds the names of packet kinds in a script, besides "any".
var kinds = []string{
	"frag", "chunk", "pack", "ack", "hello", "hello-ack", "nack", "reject", "bye", "void", "retry",
	"foreign", "part", "ping", "pong", "any",
}

// probes holds the values of the key probe.
var probes = []string{"cmd", "data"}

// The type packets describes the packets of a command, which are the lo-th to the hi-th matching
// ones.
type packets struct {
	route   route
	channel int // -1: both
	kind    string
	probe   string // "": any
	seq     int64
	tag     int64
	hasSeq  bool
	hasTag  bool
	lo, hi  int
}

// The constant all is larger than the number of packets of any script.
const all = 1<<31 - 1

// The method packets parses a description of packets.
func (p *parser) packets() packets {
	m := packets{route: p.route(), channel: -1, lo: 1, hi: 1}
	switch p.w.peek() {
	case "cmd":
		m.channel = 0
		p.w.next("")
	case "data":
		m.channel = 1
		p.w.next("")
	}
	m.kind = p.w.oneOf("a kind of packets", kinds...)
	if s, ok := p.w.key("probe"); ok {
		if m.probe = s; !slices.Contains(probes, s) {
			p.w.fail("probe %q is none of %s", s, strings.Join(probes, ", "))
		}
	}
	if s, ok := p.w.key("seq"); ok {
		m.seq, m.hasSeq = p.w.number("seq", s, -1<<31, 1<<32-1), true
	}
	if s, ok := p.w.key("tag"); ok {
		m.tag, m.hasTag = p.w.number("tag", s, 0, 255), true
	}
	s := p.w.peek()
	lo, hi, isRange := strings.Cut(s, "..")
	switch {
	case s == "all":
		m.hi = all
	case isRange:
		m.lo = int(p.w.number("the first packet", lo, 1, all))
		m.hi = int(p.w.number("the last packet", hi, int64(m.lo), all))
	case s != "" && s[0] >= '0' && s[0] <= '9':
		m.lo = int(p.w.number("the packet's number", s, 1, all))
		m.hi = m.lo
	default:
		return m
	}
	p.w.next("")
	return m
}

// match reports whether a datagram matches the description of packets.
func (m *packets) match(w *world, from, to sim.Port, data []byte) bool {
	if w.nodeAt(from.Node) != m.route.from || w.nodeAt(to.Node) != m.route.to ||
		m.channel >= 0 && from.Index != m.channel {
		return false
	}
	pkt, err := w.trace.Look(data)
	if err != nil {
		return m.kind == "any" && m.probe == "" && !m.hasSeq && !m.hasTag
	}
	return (m.kind == "any" || m.kind == pkt.Name) && (m.probe == "" || m.probe == pkt.Probe) &&
		(!m.hasTag || m.tag == int64(pkt.Tag)) && (!m.hasSeq || pkt.SeqKnown && m.seq == pkt.Seq)
}

// rule is a fault that a script has ordered for some packets.
type rule struct {
	packets

	seen int
	act  func(w *world, d *sim.Datagram, v *sim.Verdict)
}

// filter applies the rules to a datagram when it leaves its node. Each rule has its own count of
// packets.
func (w *world) filter(d *sim.Datagram) sim.Verdict {
	var v sim.Verdict
	for _, r := range w.rules {
		if !r.match(w, d.From, d.To, d.Data) {
			continue
		}
		if r.seen++; r.seen >= r.lo && r.seen <= r.hi {
			r.act(w, d, &v)
		}
	}
	return v
}

func (p *parser) rule(act func(w *world, d *sim.Datagram, v *sim.Verdict)) func(*world) error {
	m := p.packets()
	return func(w *world) error {
		w.rules = append(w.rules, &rule{packets: m, act: act})
		return nil
	}
}

func (p *parser) parseDrop() func(*world) error {
	return p.rule(func(_ *world, _ *sim.Datagram, v *sim.Verdict) { v.Drop = true })
}

func (p *parser) parseDelay() func(*world) error {
	by := p.w.keyDuration("by")
	if by == 0 {
		p.w.fail("by= is missing")
	}
	return p.rule(func(_ *world, _ *sim.Datagram, v *sim.Verdict) { v.Delay = by })
}

func (p *parser) parseDup() func(*world) error {
	copies := int(p.w.keyNumber("copies", 1, 1, 100))
	after := p.w.keyDuration("after")
	if after == 0 {
		return p.rule(func(_ *world, _ *sim.Datagram, v *sim.Verdict) { v.Copies = copies })
	}
	return p.rule(func(w *world, d *sim.Datagram, _ *sim.Verdict) {
		k := keptPacket{d.From, d.To, slices.Clone(d.Data)}
		for range copies {
			w.net.After(after, func() { w.net.Inject(k.from, k.to, k.data) })
		}
	})
}

// keptPacket is a copy of a datagram.
type keptPacket struct {
	from, to sim.Port
	data     []byte
}

func (p *parser) parseKeep() func(*world) error {
	m := p.packets()
	if !p.w.accept("as") {
		p.w.fail("as NAME is missing")
	}
	name := p.w.next("a name")
	p.kept = append(p.kept, name)
	return func(w *world) error {
		w.rules = append(w.rules, &rule{
			packets: m,
			act: func(w *world, d *sim.Datagram, _ *sim.Verdict) {
				w.kept[name] = keptPacket{d.From, d.To, slices.Clone(d.Data)}
			},
		})
		return nil
	}
}

// watch counts packets that the network has reported.
type watch struct {
	packets

	kind sim.Kind
	seen int
}

// The method event is the network's observer.
func (w *world) event(e *sim.Event) {
	w.trace.Event(w.net.Network, e)
	if e.Kind == sim.KindDelivered {
		if n := w.nodes[w.nodeAt(e.To.Node)]; n != nil {
			n.lastFrom = w.nodeAt(e.From.Node)
		}
	}
	for _, x := range w.watches {
		if x.kind == e.Kind && x.match(w, e.From, e.To, e.Data) {
			x.seen++
		}
	}
}

// nodeAt returns the name of the node with an index.
func (w *world) nodeAt(index int) string {
	if index < 0 || index >= len(w.order) {
		return "node" + strconv.Itoa(index)
	}
	return w.order[index].name
}

// changePath changes a path's parameters.
func (w *world) changePath(r route, change func(*sim.Path)) {
	from, to := w.node(r.from).Node, w.node(r.to).Node
	p := w.net.Path(from, to)
	change(&p)
	w.net.SetPath(from, to, p)
}

// settle is the time without events after which the network counts as idle, longer than a delayed
// ACK and shorter than a retransmission time-out.
const settle = time.Millisecond
