package layers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/internal/waiting"
)

// Config is the configuration with which a side opens its layers. The client sends its Config to
// the server.
type Config struct {
	Provider      string   `json:"provider"`
	Domain        string   `json:"domain"`
	Layers        []string `json:"layers"`
	Profile       string   `json:"profile"`
	MTUBytes      int      `json:"mtu_bytes"` // largest datagram
	Impair        string   `json:"impair"`
	Set           []string `json:"set"`
	PeerTimeoutNs int64    `json:"peer_timeout_ns"`
	// Wait is the name of the waiting.Mode of both sides, where empty means busy.
	Wait string `json:"wait,omitempty"`
	// TimeoutNs is the time limit for connecting the layers.
	TimeoutNs int64 `json:"timeout_ns"`

	// Server says that this side waits for the other side to connect, and is not sent.
	Server bool `json:"-"`
	// Peer is what the client of a server offers. No other module can connect to the server's.
	Peer []Offer `json:"-"`
}

// NewConfig is the configuration of a client's side, with a time limit for connecting its layers.
func NewConfig(f *plan.Flags, timeout time.Duration) Config {
	return Config{
		Provider: f.Provider, Domain: f.Domain, Layers: f.Layers(), Profile: f.Profile,
		MTUBytes: int(f.MTU), Impair: f.Impair, Set: f.Set,
		PeerTimeoutNs: int64(f.PeerTimeout), Wait: f.Wait,
		TimeoutNs: int64(timeout),
	}
}

// Validate returns an error for a configuration that this side does not support. The configuration
// may come from the network.
func (c *Config) Validate() error {
	for _, name := range c.Layers {
		if name != plan.LayerRaw && name != plan.LayerBTL && name != plan.LayerRunner {
			return fmt.Errorf("unknown layer %q", name)
		}
	}
	if c.Wait != "" {
		if _, err := waiting.ParseMode(c.Wait); err != nil {
			return err
		}
	}
	day := int64(24 * time.Hour)
	switch {
	case len(c.Layers) == 0 || len(c.Layers) > 2 ||
		len(c.Layers) == 2 && (c.Layers[0] != plan.LayerRaw || c.Layers[1] != plan.LayerBTL):
		return errors.New("layers are raw, btl, runner, or raw and btl")
	case c.PeerTimeoutNs <= 0 || c.PeerTimeoutNs > day || c.TimeoutNs <= 0 || c.TimeoutNs > day:
		return errors.New("timeout out of range")
	}
	return nil
}

// Timeout limits the time for connecting the layers.
func (c *Config) Timeout() time.Duration { return time.Duration(c.TimeoutNs) }

// wait returns the waiting mode of the sides.
func (c *Config) wait() waiting.Mode {
	mode, err := waiting.ParseMode(c.Wait)
	if err != nil {
		return waiting.Busy
	}
	return mode
}

// PeerTimeout is how long a peer may be silent before it counts as dead.
func (c *Config) PeerTimeout() time.Duration { return time.Duration(c.PeerTimeoutNs) }

// SideFacts describes a side for the report.
type SideFacts struct {
	Host     HostFacts        `json:"host"`
	Provider InfoRecord       `json:"provider"`
	Layers   map[string]Facts `json:"layers"`
}

// openDomainFunc opens a domain of the side's provider, which injects the requested faults.
type openDomainFunc func(fabric.DomainConfig) (fabric.Domain, error)

// Side is the engine of one process with its layers.
type Side struct {
	Cfg    Config
	cpu    int
	Info   fabric.Info
	engine *engine
	layers []Layer
	btl    *btlPort // the one of layers that is the transport, driven here, if any
	stats  func() btl.Stats
}

// Open opens the layers. The argument node of Open is the local address to bind, if the provider
// uses one, and cpu is the engine's CPU, where a negative number means any.
func Open(cfg Config, node NodeHint, cpu int) (*Side, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	info, err := FindInfo(&cfg, node)
	if err != nil {
		return nil, err
	}
	if !cfg.Server { // The server is told the datagrams of the client.
		if err := checkMTU(&info, &cfg); err != nil {
			return nil, err
		}
		cfg.MTUBytes = datagramBytes(&info, cfg.MTUBytes)
	}
	s := &Side{Cfg: cfg, cpu: cpu, Info: info}
	if s.engine, err = startEngine(cpu); err != nil {
		return nil, err
	}
	if err := s.engine.do(s.open); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Do runs f on the thread that owns the layers, and returns its error.
func (s *Side) Do(f func() error) error { return s.engine.do(f) }

// open opens the layers, on the engine's thread.
func (s *Side) open() error {
	var faults *impair.Faults
	if s.Cfg.Impair != "" {
		parsed, err := impair.Parse(s.Cfg.Impair)
		if err != nil {
			return err
		}
		faults = &parsed
	}
	open := func(dcfg fabric.DomainConfig) (fabric.Domain, error) {
		if faults != nil {
			return impair.Open(s.Info, dcfg, *faults)
		}
		return fabric.Open(s.Info, dcfg)
	}
	for _, name := range s.Cfg.Layers {
		var l Layer
		var err error
		switch name {
		case plan.LayerRaw:
			l, err = openRaw(open, &s.Info, &s.Cfg)
		case plan.LayerRunner:
			var p *btlPort
			if p, err = openBTL(open, &s.Info, &s.Cfg, name); err == nil {
				l = openRunner(p, s.cpu)
				s.stats = p.m.Stats
			}
		default:
			if s.btl, err = openBTL(open, &s.Info, &s.Cfg, name); err == nil {
				l, s.stats = s.btl, s.btl.m.Stats
			}
		}
		if err != nil {
			return fmt.Errorf("opening %s on %s: %w", name, s.Cfg.Provider, err)
		}
		s.layers = append(s.layers, l)
	}
	if raw, ok := s.layers[0].(*rawPort); ok && s.btl != nil { // Both.
		raw.background = func() { _ = s.btl.pass(clock()) }
	}
	s.engine.idle = s.idle
	return nil
}

// The method idle keeps the layers alive between rounds, and the next round reports its errors.
func (s *Side) idle() {
	if s.btl == nil || s.btl.idle() != nil {
		time.Sleep(idleNap)
	}
}

// Offers returns the information about the layers for the peer.
func (s *Side) Offers() (offers []Offer) {
	_ = s.engine.do(func() error {
		for _, l := range s.layers {
			offers = append(offers, l.offer())
		}
		return nil
	})
	return offers
}

// SkipReason returns the reason why this side cannot run a round, or "" if it can.
func (s *Side) SkipReason(spec *plan.Spec) (reason string) {
	for _, o := range s.Offers() {
		if o.Layer == spec.Layer {
			reason = SkipReason(&o, spec.Test, spec.SizeBytes)
		}
	}
	return reason
}

// Connect connects each layer with the peer's endpoint of that layer.
func (s *Side) Connect(peer []Offer) error {
	return s.engine.do(func() error {
		for i, l := range s.layers {
			name := s.Cfg.Layers[i]
			j := slices.IndexFunc(peer, func(o Offer) bool { return o.Layer == name })
			if j < 0 {
				return fmt.Errorf("peer offers no layer %s", name)
			}
			if err := l.connect(peer[j], s.Cfg.Timeout()); err != nil {
				return fmt.Errorf("connecting %s: %w", name, err)
			}
		}
		return nil
	})
}

// Layer returns a layer by name, or nil.
func (s *Side) Layer(name string) Layer {
	if i := slices.Index(s.Cfg.Layers, name); i >= 0 {
		return s.layers[i]
	}
	return nil
}

// Facts describes the side for the report.
func (s *Side) Facts() SideFacts {
	f := SideFacts{
		Host: newHostFacts(s.cpu), Provider: NewInfoRecord(&s.Info),
		Layers: make(map[string]Facts),
	}
	_ = s.engine.do(func() error {
		for i, l := range s.layers {
			f.Layers[s.Cfg.Layers[i]] = l.facts()
		}
		return nil
	})
	return f
}

// Stats returns a function that reads the transport's counters, and ok is false if there is no
// transport.
func (s *Side) Stats() (read func() btl.Stats, ok bool) {
	return s.stats, s.stats != nil
}

// Close closes the layers, and then ends the engine.
func (s *Side) Close() {
	for _, l := range s.layers {
		_ = s.engine.always(func() error { // Nothing can be done about an error.
			s.engine.idle = nil
			return l.close()
		})
	}
	s.engine.stop()
}
