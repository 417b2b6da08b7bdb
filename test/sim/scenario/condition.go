package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gobtl/btl"
	"gobtl/fabric/sim"
)

// condition reports whether it is fulfilled, and describes the actual state.
type condition func() (holds bool, is string)

// The method watches returns new counters for the conditions that count packets.
func (s *Script) watches() []*watch {
	all := make([]*watch, len(s.watched))
	for i := range all {
		x := s.watched[i]
		all[i] = &x
	}
	return all
}

// condition parses the rest of a line.
func (p *parser) condition() func(*world) condition {
	first := p.w.peek()
	switch {
	case first == "idle":
		p.w.next("")
		return func(w *world) condition { return w.idle }
	case first == "sent" || first == "delivered":
		return p.packetsSeen()
	case strings.Contains(first, ">"):
		return p.sideCondition()
	case isMessage(first):
		return p.messageCondition()
	}
	return p.nodeCondition()
}

// packetsSeen counts packets from the beginning, and "run until" counts them from its own start.
func (p *parser) packetsSeen() func(*world) condition {
	kind := sim.KindSent
	if p.w.next("") == "delivered" {
		kind = sim.KindDelivered
	}
	index := len(p.script.watched)
	m := p.packets()
	p.script.watched = append(p.script.watched, watch{packets: m, kind: kind})
	return func(w *world) condition {
		x := w.watches[index]
		if w.waiting {
			x.seen = 0
		}
		return func() (bool, string) {
			return x.seen >= m.lo, fmt.Sprintf("%d such packets were %v", x.seen, kind)
		}
	}
}

func isMessage(s string) bool {
	return len(s) > 1 && s[0] == 'm' && strings.Trim(s[1:], "0123456789.m") == ""
}

// messageCondition parses conditions such as "m3 done" and "m1..m4 failed ErrClosed".
func (p *parser) messageCondition() func(*world) condition {
	lo, hi, isRange := strings.Cut(p.w.next("a message"), "..")
	first := p.w.number("message", strings.TrimPrefix(lo, "m"), 1, 1<<30)
	last := first
	if isRange {
		last = p.w.number("message", strings.TrimPrefix(hi, "m"), first, 1<<30)
	}
	what := p.w.oneOf("what is with it", "done", "failed", "pending", "refused", "arrived")
	var want error
	if what == "failed" || what == "refused" {
		want = p.errorWord(true)
	}
	return func(w *world) condition {
		return func() (bool, string) {
			for i := first; i <= last; i++ {
				if i > int64(len(w.msgs)) {
					return false, fmt.Sprintf("there is no m%d", i)
				}
				m := w.msgs[i-1]
				holds := m.arrived
				if what != "arrived" {
					holds = m.state.String() == what && (want == nil || isError(m.err, want))
				}
				if !holds {
					return false, fmt.Sprintf("%s %v%s, arrived %v", m.name(), m.state, because(m.err), m.arrived)
				}
			}
			return true, fmt.Sprintf("m%d..m%d: %s", first, last, what)
		}
	}
}

// errorWord parses the name of an error, which may be missing if it is optional.
func (p *parser) errorWord(must bool) error {
	if p.w.peek() == "" && !must || p.w.peek() == "within" {
		return nil
	}
	s := p.w.next("an error")
	for _, e := range errorNames {
		if e.name == s {
			return e.err
		}
	}
	if s != "" {
		p.w.fail("unknown error %q", s)
	}
	return nil
}

func isError(err, want error) bool { return err != nil && errorName(err) == errorName(want) }

// sideCondition parses conditions such as "a>b connected".
func (p *parser) sideCondition() func(*world) condition {
	r := p.route()
	what := p.w.oneOf("what is with it", "connected", "connecting", "open", "closed", "failed", "none",
		"flushed", "outstanding")
	var want error
	if what == "closed" || what == "failed" {
		want = p.errorWord(false)
	}
	packets := 0
	if what == "outstanding" {
		packets = int(p.w.nextNumber("a number of packets", 0, 1<<20))
	}
	return func(w *world) condition {
		return func() (bool, string) {
			s := w.sides[r]
			if s == nil {
				return what == "none", "there is no endpoint"
			}
			n, _ := s.ep.Outstanding()
			is := fmt.Sprintf("connected %v, ended %q%s, %d packets outstanding, %d flushes", s.connected,
				s.end, because(s.err), n, s.flushes)
			switch what {
			case "connected":
				return s.connected && s.end == "", is
			case "connecting":
				return !s.connected && s.end == "", is
			case "open":
				return s.end == "", is
			case "flushed":
				return s.flushes == 0, is
			case "outstanding":
				return n == packets, is
			case "closed", "failed":
				return s.end == what && (want == nil || isError(s.err, want)), is
			}
			return false, is
		}
	}
}

// nodeCondition parses conditions such as "a delivered 3" and "a retransmits/timeout = 1".
func (p *parser) nodeCondition() func(*world) condition {
	name := p.node()
	if p.w.accept("delivered") {
		want := int(p.w.nextNumber("a number of messages", 0, 1<<30))
		return func(w *world) condition {
			return func() (bool, string) {
				got := w.node(name).arrived
				return got == want, fmt.Sprintf("%d were delivered", got)
			}
		}
	}
	var get func(s *btl.Stats) uint64
	if p.w.accept("gauge") {
		get = p.gauge()
	} else {
		get = p.counter()
	}
	op := p.w.oneOf("a comparison", comparisons...)
	want := uint64(p.w.nextNumber("a number", 0, 1<<62))
	return func(w *world) condition {
		return func() (bool, string) {
			n := w.node(name)
			if n.Mod == nil {
				return false, name + " is down"
			}
			st := n.stats()
			got := get(&st)
			is := strconv.FormatUint(got, 10)
			switch op {
			case ">=":
				return got >= want, is
			case "<=":
				return got <= want, is
			}
			return got == want, is
		}
	}
}

func (p *parser) gauge() func(*btl.Stats) uint64 {
	switch p.w.oneOf("a gauge", "endpoints", "inflight", "buffers", "credits") {
	case "endpoints":
		return func(s *btl.Stats) uint64 { return s.Endpoints }
	case "inflight":
		return func(s *btl.Stats) uint64 { return s.InFlight }
	case "buffers":
		return func(s *btl.Stats) uint64 { return s.SendBuffersFree }
	}
	return func(s *btl.Stats) uint64 { return s.CreditsGranted }
}

// counter parses the short name of a counter.
func (p *parser) counter() func(*btl.Stats) uint64 {
	s := p.w.next("a counter")
	all := btl.Counters()
	i := slices.IndexFunc(all, func(c btl.Counter) bool { return counterName(c) == s })
	if i < 0 {
		p.w.fail("unknown counter %q", s)
		return nil
	}
	return func(st *btl.Stats) uint64 { return st.Get(all[i]) }
}

// counterName is the name of a metric without the common prefix, and the value of its label.
func counterName(c btl.Counter) string {
	s := strings.TrimSuffix(strings.TrimPrefix(c.Metric(), "gobtl_"), "_total")
	if _, value := c.Label(); value != "" {
		s += "/" + value
	}
	return s
}

// stats returns the present counters, which a poll without packets publishes.
func (n *node) stats() btl.Stats {
	n.pass()
	return n.Mod.Stats()
}
