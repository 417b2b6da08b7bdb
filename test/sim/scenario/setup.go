package scenario

import (
	"slices"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/limits"
	"gobtl/reliability"
)

// setup is the configuration of the network.
type setup struct {
	net   sim.Config
	fixed bool // a node was declared
}

// defaultDelay is the delay of every path unless the script sets another one.
const defaultDelay = 10 * time.Microsecond

func (p *parser) parseNetwork() func(*world) error {
	s := &p.script.setup
	if s.fixed {
		p.w.fail("the network must come before the nodes")
	}
	s.net.Seed = uint64(p.w.keyNumber("seed", 1, 0, 1<<62))
	s.net.MTUBytes = int(p.w.keyNumber("mtu", 1472, 512, 9000))
	s.net.InjectBytes = int(p.w.keyNumber("inject", 0, -1, 9000))
	s.net.QueueDatagrams = int(p.w.keyNumber("queue", 0, 1, 1<<16))
	s.net.PassCost = p.w.keyDuration("pass")
	if regions, ok := p.w.key("regions"); ok {
		p.oneOf("regions", regions, []string{"free", "none"})
		s.net.FreeRegions, s.net.NoGather = regions == "free", regions == "none"
	}
	if landing, ok := p.w.key("landing"); ok {
		p.oneOf("landing", landing, []string{"off"})
		s.net.NoLanding = true
	}
	if reliable, ok := p.w.key("reliable"); ok {
		p.oneOf("reliable", reliable, []string{"yes"})
		s.net.Reliable = true
	}
	return nil
}

// nodeConfig is the configuration of a node's module.
type nodeConfig struct {
	btl       btl.Config
	limits    limits.Limits
	first     uint32 // its first sequence numbers
	fragID    uint32 // its first fragment ids, if hasFragID
	hasFragID bool
}

// nodeKey is a key of the commands node and restart.
type nodeKey struct {
	name   string
	lo, hi int64 // both 0: a duration
	set    func(c *nodeConfig, v int64)
}

// nodeKeys are the keys of node and restart, most of which are fields of btl.Config.
var nodeKeys = []nodeKey{
	{"first", 0, 1<<32 - 1, func(c *nodeConfig, v int64) { c.first = uint32(v) }},
	{"fragid", 0, 1<<32 - 1, func(c *nodeConfig, v int64) { c.fragID, c.hasFragID = uint32(v), true }},
	{"window", 1, 4096, func(c *nodeConfig, v int64) { c.btl.Rules.WindowPackets = int(v) }},
	{"mtu", 512, 9000, func(c *nodeConfig, v int64) { c.btl.MTUBytes = int(v) }},
	{"tiny", 256, 9000, func(c *nodeConfig, v int64) { c.btl.TinyBytes = int(v) }},
	{"pack", 1, 9000, func(c *nodeConfig, v int64) { c.btl.PackBytes = int(v) }},
	{"buffers", 64, 1024, func(c *nodeConfig, v int64) { c.btl.SendBuffers = int(v) }},
	{"depth", 16, 1024, func(c *nodeConfig, v int64) { c.btl.RecvDepth = int(v) }},
	{"txdepth", 1, 4096, func(c *nodeConfig, v int64) { c.btl.TxDepth = int(v) }},
	{"fragments", 16, 1024, func(c *nodeConfig, v int64) { c.btl.FragmentsMax = int(v) }},
	{"fragmax", 1 << 10, 1 << 30, func(c *nodeConfig, v int64) {
		c.btl.FragmentBytesMax = uint32(v)
	}},
	{"reassembly", 1 << 10, 1 << 31, func(c *nodeConfig, v int64) { c.btl.ReassemblyBytesMax = v }},
	{"peers", 1, 4096, func(c *nodeConfig, v int64) { c.btl.PeersMax = int(v) }},
	{"halfopen", 1, 4096, func(c *nodeConfig, v int64) { c.limits.HalfOpenMax = int(v) }},
	{"resends", 1, 1024, func(c *nodeConfig, v int64) { c.btl.Rules.ResendsPerPass = int(v) }},
	{"ackevery", 1, 4096, func(c *nodeConfig, v int64) { c.btl.Rules.AckEvery = int(v) }},
	{"resend", 0, 0, func(c *nodeConfig, v int64) { c.btl.Rules.ResendTimeout = time.Duration(v) }},
	{"resendmax", 0, 0, func(c *nodeConfig, v int64) {
		c.btl.Rules.ResendTimeoutMax = time.Duration(v)
	}},
	{"duphold", 0, 0, func(c *nodeConfig, v int64) { c.btl.Rules.DupAckHold = time.Duration(v) }},
	{"ackdelay", 0, 0, func(c *nodeConfig, v int64) { c.btl.Rules.AckDelay = time.Duration(v) }},
	{"handshake", 0, 0, func(c *nodeConfig, v int64) { c.btl.HandshakeTimeout = time.Duration(v) }},
	{"peertimeout", 0, 0, func(c *nodeConfig, v int64) { c.btl.PeerTimeout = time.Duration(v) }},
	{"keepalive", 0, 0, func(c *nodeConfig, v int64) { c.btl.KeepAlive = time.Duration(v) }},
	{"closetimeout", 0, 0, func(c *nodeConfig, v int64) { c.btl.CloseTimeout = time.Duration(v) }},
}

// config parses the keys of a node's configuration.
func (p *parser) config() func(*nodeConfig) {
	var changes []func(*nodeConfig)
	if profile, ok := p.w.key("profile"); ok {
		p.oneOf("profile", profile, reliability.Profiles())
		changes = append(changes, func(c *nodeConfig) { c.btl.Profile = profile })
	}
	if who, ok := p.w.key("reliability"); ok {
		p.oneOf("reliability", who, []string{"own"})
		changes = append(changes, func(c *nodeConfig) { c.btl.Reliability = who })
	}
	for _, k := range nodeKeys {
		s, ok := p.w.key(k.name)
		if !ok {
			continue
		}
		var v int64
		if k.lo == 0 && k.hi == 0 {
			v = int64(p.w.duration(k.name, s))
		} else {
			v = p.w.number(k.name, s, k.lo, k.hi)
		}
		changes = append(changes, func(c *nodeConfig) { k.set(c, v) })
	}
	return func(c *nodeConfig) {
		for _, change := range changes {
			change(c)
		}
	}
}

func (p *parser) parseNode() func(*world) error {
	name := p.w.next("a name")
	p.script.setup.fixed = true
	switch {
	case name == "":
	case len(name) > 32 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" ||
		name[0] <= '9':
		p.w.fail("%q is no name of a node: small letters and digits, at most 32", name)
	case slices.Contains(p.script.nodes, name):
		p.w.fail("node %s is there already", name)
	case len(p.script.nodes) == nodesMax:
		p.w.fail("more than %d nodes", nodesMax)
	case name == "cmd" || name == "data" || name == "idle" || name == "sent" ||
		name == "delivered" || name == "not":
		p.w.fail("a node cannot be called %s", name)
	}
	p.script.nodes = append(p.script.nodes, name)
	change := p.config()
	return func(w *world) error {
		n := w.node(name)
		// Each script names its recovery profile, so that traces do not depend on the default profile.
		// Small numbers make limits easy to reach, and Check fast. The limits for one poll are set here,
		// so that traces do not depend on the defaults.
		n.cfg = nodeConfig{
			first: uint32(0x1000 * (n.index + 1)),
			btl: btl.Config{
				Profile:     "usnic",
				SendBuffers: 64, RecvDepth: 64, FragmentsMax: 64, PeersMax: 16,
				FragmentBytesMax: 16 << 20, KeepAlive: -1,
			},
			limits: limits.Limits{QuantumBytes: 16 << 10, PassPackets: 12, PollBatch: 64},
		}
		change(&n.cfg)
		return n.open()
	}
}

func (p *parser) parseRestart() func(*world) error {
	name := p.node()
	change := p.config()
	return func(w *world) error {
		n := w.node(name)
		n.crash()
		change(&n.cfg)
		return n.open()
	}
}

func (p *parser) parsePath() func(*world) error {
	routes := p.routes()
	delay, hasDelay := p.w.key("delay")
	var d time.Duration
	if hasDelay {
		d = p.w.duration("delay", delay)
	}
	bandwidth := p.w.keyNumber("bandwidth", 0, 1, 1<<40)
	queue := p.w.keyNumber("queue", 0, 1, 1<<30)
	mtu := p.w.keyNumber("mtu", 0, 1, 1<<16)
	return func(w *world) error {
		for _, r := range routes {
			w.changePath(r, func(p *sim.Path) {
				if hasDelay {
					p.Delay = d
				}
				p.BytesPerSecond, p.QueueBytes, p.MTUBytes = int(bandwidth), int(queue), int(mtu)
			})
		}
		return nil
	}
}

func (p *parser) parseCut() func(*world) error  { return p.cut(true) }
func (p *parser) parseHeal() func(*world) error { return p.cut(false) }

func (p *parser) cut(cut bool) func(*world) error {
	routes := p.routes()
	return func(w *world) error {
		for _, r := range routes {
			w.changePath(r, func(p *sim.Path) { p.Cut = cut })
		}
		return nil
	}
}

func (p *parser) parseHandler() func(*world) error {
	name := p.node()
	tag := p.w.nextNumber("a tag", 0, int64(btl.TagMax))
	on := p.w.oneOf("the handler", "on", "off") == "on"
	return func(w *world) error { return w.node(name).handle(btl.Tag(tag), on) }
}

func (p *parser) parseExpose() func(*world) error {
	name := p.node()
	size := p.w.nextNumber("a size", 0, sizeMax)
	return func(w *world) error { return w.node(name).expose(int(size)) }
}

func (p *parser) parseUnexpose() func(*world) error {
	name := p.node()
	region := p.w.nextNumber("a region", 1, 1<<16)
	return func(w *world) error {
		n := w.node(name)
		if int(region) > len(n.regions) {
			return w.errorf("%s has %d regions", name, len(n.regions))
		}
		n.regions[region-1].Close()
		n.note("region %d closed", region)
		return nil
	}
}

func (p *parser) parseFaults() func(*world) error {
	name := p.node()
	f := sim.NodeFaults{
		PostAgain:      p.w.keyShare("again"),
		AgainPosts:     int(p.w.keyNumber("posts", 8, 1, 1<<20)),
		SendError:      p.w.keyShare("senderror"),
		RecvError:      p.w.keyShare("recverror"),
		LateSends:      p.w.keyDuration("late"),
		QueueDatagrams: int(p.w.keyNumber("queue", 0, 1, 1<<16)),
	}
	return func(w *world) error {
		w.node(name).SetFaults(f)
		return nil
	}
}

func (p *parser) parseCrash() func(*world) error {
	name := p.node()
	return func(w *world) error {
		w.node(name).crash()
		return nil
	}
}

func (p *parser) parsePause() func(*world) error {
	name := p.node()
	d := p.w.nextDuration()
	return func(w *world) error {
		w.node(name).Pause(d)
		return nil
	}
}

func (p *parser) parsePace() func(*world) error {
	name := p.node()
	d := p.w.nextDuration()
	return func(w *world) error {
		w.node(name).SetPace(d)
		return nil
	}
}
