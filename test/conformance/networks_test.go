package conformance

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	_ "gobtl/fabric/net" // register their families
	_ "gobtl/fabric/ofi"
	_ "gobtl/fabric/shm"
	_ "gobtl/fabric/udp"
	"gobtl/internal/testenv"
)

// process is what a station runs: passes, as a program that calls Progress makes them.
type process interface {
	Progress(now btl.Time) (int, error)
	Deadline() btl.Time
}

// network is where stations reach each other, with its time.
type network interface {
	station(tb testing.TB) station
	now() btl.Time
	// step lets something happen; false means that nothing will.
	step() bool
	// advance lets everything happen up to an instant.
	advance(to btl.Time)
	// check returns what the network has found wrong with the use that was made of it.
	check() error
}

// station is a place in a network where one process at a time runs.
type station interface {
	open(cfg btl.Config) (fabric.Domain, error)
	run(p process)
	kick()                 // a pass now: something was done from outside
	pause(d time.Duration) // no pass for so long
	crash()                // no pass any more, and the domain is gone
}

// opts are a scenario's wishes about its network.
type opts struct {
	// queueDatagrams is a small receive queue, where the network's own is not a socket's. 0: its own.
	queueDatagrams int
}

// fixture is a kind of network.
type fixture struct {
	name string
	open func(tb testing.TB, o opts) network
	// virtual time; real networks have threads and signals instead.
	virtual bool
	// rebinds says that a restarted process has the addresses of the one before.
	rebinds bool
	// rough networks lose, repeat, reorder and alter datagrams.
	rough bool
	// deep networks keep for a receiver whatever is sent to it: they have no small receive queues.
	deep bool
	// brief networks are another one with a feature left out: scenarios that are long and have nothing
	// to do with it are not run again.
	brief bool
	// reliable networks are libfabric providers with a reliability of their own, which makes them
	// slow; they run the scenarios of the core only.
	reliable bool
	// few are the names of the only scenarios that a very slow network runs. nil: there is no choice.
	few []string
}

// runs says whether a scenario is for the network.
func (fx *fixture) runs(sc *scenario) bool {
	switch {
	case fx.few != nil && !slices.Contains(fx.few, sc.name):
		return false
	case sc.long && fx.brief, !sc.core && fx.reliable:
		return false
	case sc.threads && fx.virtual:
		return false
	case testenv.Race && (!sc.threads || fx.brief || fx.reliable): // brief ones have the same threads
		return false
	case testing.Short() && (fx.brief || fx.virtual):
		return false
	}
	return sc.on == nil || sc.on(fx)
}

// allow returns a time-out: d, and more of it where packets are lost again and again.
func (fx *fixture) allow(d time.Duration) time.Duration {
	if fx.rough {
		return 8 * d
	}
	return d
}

// ethernet is the payload of a datagram on an Ethernet. The loopback device carries much more, and
// then a module's packets are too few to be sent and received in runs.
const ethernet = 1472

// fixtures is the table of networks. One more provider is one more line.
var fixtures = []fixture{
	{name: "mem", open: openMem},
	{name: "udp", open: registered("udp", "127.0.0.1", ethernet)},
	{name: "udp_jumbo", open: registered("udp", "127.0.0.1", 0), brief: true},
	{name: "udp_nogso", open: registered("udp;nogso", "127.0.0.1", ethernet), brief: true},
	{name: "udp_nogro", open: registered("udp;nogro", "127.0.0.1", ethernet), brief: true},
	{name: "udp_nommsg", open: registered("udp;nommsg", "127.0.0.1", ethernet), brief: true},
	{name: "udp_bare", open: registered("udp;nogso;nogro;nommsg", "127.0.0.1", 0), brief: true},
	{
		name: "udp_variants", brief: true,
		open: openVariants("udp", "udp;nogso;nogro;nommsg", "udp;nogro", "udp;nogso", "udp;nommsg"),
	},
	{name: "udp_ip6", open: registered("udp", "::1", ethernet), brief: true},
	{name: "net", open: registered("net", "127.0.0.1", ethernet)},
	{name: "net_beside_udp", open: openVariants("net", "udp"), brief: true},
	{name: "shm", open: registered("shm", "", 0), deep: true},
	{name: "ofi_udp", open: registered("ofi/udp", "127.0.0.1", 0)},
	{name: "ofi_udp_offload", open: registered("ofi/udp+offload", "127.0.0.1", 0), brief: true},
	{name: "ofi_shm", open: registered("ofi/shm", "", 0), reliable: true},
	{name: "ofi_net", open: registered("ofi/net", "127.0.0.1", 0), reliable: true},
	{name: "ofi_tcp", open: registered("ofi/tcp", "127.0.0.1", 0), reliable: true},
	{name: "ofi_rxd", open: registered("ofi/udp;ofi_rxd", "127.0.0.1", 0), reliable: true},
	{
		name: "ofi_sockets", open: registered("ofi/sockets", "127.0.0.1", 0), reliable: true,
		few: []string{"rdm_exchange", "unexpected_msg", "inject", "multinode_all2all", "rdm_atomic"},
	},
	{name: "sim_clean", open: openClean, virtual: true, rebinds: true},
	{name: "sim_rough", open: openRough, virtual: true, rebinds: true, rough: true},
}

// realNet is a provider, driven on the real clock by one goroutine.
type realNet struct {
	infos    func() ([]fabric.Info, error)
	domain   func(info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error)
	start    time.Time
	stations []*realStation
}

func openMem(_ testing.TB, o opts) network {
	nw := mem.New(mem.Config{QueueDatagrams: o.queueDatagrams})
	return &realNet{
		infos:  func() ([]fabric.Info, error) { return nw.Provider().GetInfo(fabric.Hints{}) },
		domain: nw.Provider().Open,
		start:  time.Now(),
	}
}

// registered opens a provider of the registry, at a local address, with its own MTU or a smaller
// one. Where it is missing the scenario is skipped, but CI has all that a build can use.
func registered(provider, node string, mtuBytes int) func(testing.TB, opts) network {
	return func(tb testing.TB, _ opts) network {
		tb.Helper()
		infos, err := fabric.GetInfo(fabric.Hints{Provider: provider, Node: node})
		switch {
		case err == nil:
		case provider == "ofi/net" && netIsTCP(node):
			tb.Skip("libfabric 1.18 and later call it tcp")
		case strings.HasPrefix(provider, "ofi/") && !withCgo:
			tb.Skipf("a build without cgo: %v", err)
		case os.Getenv("CI") == "":
			tb.Skipf("needs provider %s (ofi: Debian's libfabric-dev) at %s: %v", provider, node, err)
		default:
			tb.Fatal(err)
		}
		if mtuBytes > 0 {
			infos[0].MTUBytes = min(infos[0].MTUBytes, mtuBytes)
		}
		return &realNet{
			infos:  func() ([]fabric.Info, error) { return infos[:1], nil },
			domain: openNarrow,
			start:  time.Now(),
		}
	}
}

// netIsTCP says whether libfabric has under the name tcp what was net in 1.16 and 1.17.
func netIsTCP(node string) bool {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/tcp", Node: node})
	return err == nil && infos[0].Provider == "ofi/tcp"
}

// openVariants is a network in which every process has another one of the providers than the one
// before. All of them have the wire of udp.
func openVariants(providers ...string) func(testing.TB, opts) network {
	return func(testing.TB, opts) network {
		opened := 0
		return &realNet{
			infos: func() ([]fabric.Info, error) {
				h := fabric.Hints{Provider: providers[opened%len(providers)], Node: "127.0.0.1"}
				opened++
				infos, err := fabric.GetInfo(h)
				if err == nil {
					infos[0].MTUBytes = ethernet
				}
				return infos, err
			},
			domain: openNarrow,
			start:  time.Now(),
		}
	}
}

// openNarrow opens a domain on a device with the Info's MTU.
func openNarrow(info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error) {
	d, err := fabric.Open(info, cfg)
	if err != nil {
		return nil, err
	}
	return narrow{d, d.(fabric.Waiter), info.MTUBytes}, nil
}

// narrow is a domain on a device with another MTU. The size of its buffers bounds the datagrams.
type narrow struct {
	fabric.Domain
	fabric.Waiter
	mtuBytes int
}

func (d narrow) Info() fabric.Info {
	info := d.Domain.Info()
	info.MTUBytes = d.mtuBytes
	return info
}

func (nw *realNet) now() btl.Time { return btl.Time(time.Since(nw.start)) + 1 }

func (nw *realNet) check() error { return nil }

// step gives every station one pass.
func (nw *realNet) step() bool {
	for _, s := range nw.stations {
		if s.p == nil {
			continue
		}
		if now := nw.now(); now >= s.asleepUntil {
			_, _ = s.p.Progress(now) // a node keeps its error
		}
	}
	return true
}

func (nw *realNet) advance(to btl.Time) {
	for nw.now() < to {
		nw.step()
	}
}

func (nw *realNet) station(testing.TB) station {
	s := &realStation{nw: nw}
	nw.stations = append(nw.stations, s)
	return s
}

type realStation struct {
	nw          *realNet
	p           process
	dom         fabric.Domain
	asleepUntil btl.Time
}

func (s *realStation) open(cfg btl.Config) (fabric.Domain, error) {
	infos, err := s.nw.infos()
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, errors.New("the provider has nothing to open")
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, err
	}
	s.dom, err = s.nw.domain(infos[0], dc)
	return s.dom, err
}

func (s *realStation) run(p process) { s.p = p }

func (s *realStation) kick() {}

func (s *realStation) pause(d time.Duration) { s.asleepUntil = s.nw.now().Add(d) }

func (s *realStation) crash() {
	s.p = nil
	if s.dom != nil {
		_ = s.dom.Close() // the module above it never hears of it, as after SIGKILL
	}
}
