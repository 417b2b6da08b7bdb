package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/impair"
)

// sideConfig is what a side needs to know to open its layers. The client sends its own to the
// server.
type sideConfig struct {
	Provider      string   `json:"provider"`
	Domain        string   `json:"domain"`
	Layers        []string `json:"layers"`
	Profile       string   `json:"profile"`
	MTUBytes      int      `json:"mtu_bytes"` // largest datagram
	Impair        string   `json:"impair"`
	Set           []string `json:"set"`
	PeerTimeoutNs int64    `json:"peer_timeout_ns"`
	// TimeoutNs bounds the connecting of the layers.
	TimeoutNs int64 `json:"timeout_ns"`

	server bool // this side waits for the other to connect
}

func newSideConfig(f *benchFlags, timeout time.Duration) sideConfig {
	return sideConfig{
		Provider: f.Provider, Domain: f.Domain, Layers: f.layers(), Profile: f.Profile,
		MTUBytes: f.MTU, Impair: f.Impair, Set: f.Set, PeerTimeoutNs: int64(f.PeerTimeout),
		TimeoutNs: int64(timeout),
	}
}

// validate reports what this side cannot do. The configuration may have come from the wire.
func (c *sideConfig) validate() error {
	for _, name := range c.Layers {
		if name != layerRaw && name != layerBTL {
			return fmt.Errorf("unknown layer %q", name)
		}
	}
	day := int64(24 * time.Hour)
	switch {
	case len(c.Layers) == 0 || len(c.Layers) > 2 ||
		len(c.Layers) == 2 && (c.Layers[0] != layerRaw || c.Layers[1] != layerBTL):
		return errors.New("layers are raw, btl, or raw and btl")
	case c.PeerTimeoutNs <= 0 || c.PeerTimeoutNs > day || c.TimeoutNs <= 0 || c.TimeoutNs > day:
		return errors.New("timeout out of range")
	}
	return nil
}

func (c *sideConfig) timeout() time.Duration     { return time.Duration(c.TimeoutNs) }
func (c *sideConfig) peerTimeout() time.Duration { return time.Duration(c.PeerTimeoutNs) }

// validateImpair reports faults that cannot be parsed.
func (f *benchFlags) validateImpair() error {
	if f.Impair == "" {
		return nil
	}
	if _, err := impair.Parse(f.Impair); err != nil {
		return fmt.Errorf("--impair: %w", err)
	}
	return nil
}

// sideFacts describe a side for the report.
type sideFacts struct {
	Host     hostFacts             `json:"host"`
	Provider infoRecord            `json:"provider"`
	Layers   map[string]layerFacts `json:"layers"`
}

// openDomainFunc opens a domain of the side's provider, with its faults.
type openDomainFunc func(fabric.DomainConfig) (fabric.Domain, error)

// side is one process' end of everything: the engine and the layers that it owns.
type side struct {
	cfg    sideConfig
	cpu    int
	info   fabric.Info
	engine *engine
	layers []layer
	btl    *btlPort // the one of layers that is the transport, if any
}

// openSide opens the layers. node is the local address to bind, where the provider takes one; cpu
// is the engine's, negative for any.
func openSide(cfg sideConfig, node nodeHint, cpu int) (*side, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	info, err := findInfo(&cfg, node)
	if err != nil {
		return nil, err
	}
	if !cfg.server { // The server is told the datagrams of the client.
		cfg.MTUBytes = datagramBytes(&info, cfg.MTUBytes)
	}
	s := &side{cfg: cfg, cpu: cpu, info: info}
	if s.engine, err = startEngine(cpu); err != nil {
		return nil, err
	}
	if err := s.engine.do(s.open); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// open opens the layers, on the engine's thread.
func (s *side) open() error {
	var faults *impair.Faults
	if s.cfg.Impair != "" {
		parsed, err := impair.Parse(s.cfg.Impair)
		if err != nil {
			return err
		}
		faults = &parsed
	}
	open := func(dcfg fabric.DomainConfig) (fabric.Domain, error) {
		if faults != nil {
			return impair.Open(s.info, dcfg, *faults)
		}
		return fabric.Open(s.info, dcfg)
	}
	for _, name := range s.cfg.Layers {
		var l layer
		var err error
		if name == layerRaw {
			l, err = openRaw(open, &s.info, s.cfg.MTUBytes)
		} else {
			s.btl, err = openBTL(open, &s.info, &s.cfg)
			l = s.btl
		}
		if err != nil {
			return fmt.Errorf("opening %s on %s: %w", name, s.cfg.Provider, err)
		}
		s.layers = append(s.layers, l)
	}
	if raw, ok := s.layers[0].(*rawPort); ok && s.btl != nil { // Both.
		raw.background = func() { _ = s.btl.pass(clock()) }
	}
	s.engine.idle = s.idle
	return nil
}

// idle keeps the layers alive between rounds. What goes wrong here is seen by the next round.
func (s *side) idle() {
	if s.btl == nil || s.btl.idle() != nil {
		time.Sleep(idleNap)
	}
}

// offers is what the peer must know of the layers.
func (s *side) offers() (offers []layerOffer) {
	_ = s.engine.do(func() error {
		for _, l := range s.layers {
			offers = append(offers, l.offer())
		}
		return nil
	})
	return offers
}

// connect connects each layer with the peer's end of it.
func (s *side) connect(peer []layerOffer) error {
	return s.engine.do(func() error {
		for i, l := range s.layers {
			name := s.cfg.Layers[i]
			j := slices.IndexFunc(peer, func(o layerOffer) bool { return o.Layer == name })
			if j < 0 {
				return fmt.Errorf("%w: peer offers no layer %s", errProtocol, name)
			}
			if err := l.connect(peer[j], s.cfg.timeout()); err != nil {
				return fmt.Errorf("connecting %s: %w", name, err)
			}
		}
		return nil
	})
}

// layer returns a layer by name, or nil.
func (s *side) layer(name string) layer {
	if i := slices.Index(s.cfg.Layers, name); i >= 0 {
		return s.layers[i]
	}
	return nil
}

func (s *side) facts() sideFacts {
	f := sideFacts{
		Host: newHostFacts(s.cpu), Provider: newInfoRecord(&s.info),
		Layers: make(map[string]layerFacts),
	}
	_ = s.engine.do(func() error {
		for i, l := range s.layers {
			f.Layers[s.cfg.Layers[i]] = l.facts()
		}
		return nil
	})
	return f
}

// close closes the layers, then ends the engine.
func (s *side) close() {
	_ = s.engine.do(func() error {
		s.engine.idle = nil
		for _, l := range s.layers {
			_ = l.close() // Nothing can be done about it, and the process is about to end.
		}
		return nil
	})
	s.engine.stop()
}
