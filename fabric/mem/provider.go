package mem

import (
	"fmt"

	"gobtl/fabric"
)

// The network that init registers can be opened only through the registry of providers. A test that
// needs a private network calls New.
func init() { fabric.Register(New(Config{}).Provider()) }

type provider struct{ nw *Network }

// Provider returns the network as a fabric.Provider.
func (nw *Network) Provider() fabric.Provider { return provider{nw} }

func (provider) Family() string { return family }

// GetInfo returns an Info if Hints.Provider is empty or selects this provider. Because the network
// has no local addresses, Hints.Node must be empty or the name of the domain.
func (p provider) GetInfo(h fabric.Hints) ([]fabric.Info, error) {
	if p.nw.cfgErr != nil {
		return nil, p.nw.cfgErr
	}
	switch h.Provider {
	case "", family, family + "/", ProviderName:
	default:
		return nil, nil
	}
	if h.Domain != "" && h.Domain != domainName || h.Node != "" && h.Node != domainName {
		return nil, nil
	}
	info := p.nw.info()
	info.Node = h.Node
	return []fabric.Info{info}, nil
}

func (p provider) Open(info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error) {
	if info.Provider != ProviderName {
		return nil, fmt.Errorf("%w: %q is not %q", fabric.ErrNoProvider, info.Provider, ProviderName)
	}
	return p.nw.Open(cfg)
}

func (nw *Network) info() fabric.Info {
	c := nw.cfg
	return fabric.Info{
		Provider:    ProviderName,
		Version:     "1",
		Fabric:      "process",
		Domain:      domainName,
		AddrFormat:  "mem:<number>",
		MTUBytes:    c.MTUBytes,
		InjectBytes: c.InjectBytes,
		TxDepth:     c.TxDepth,
		RxDepth:     c.RxDepth,
		IOVLimit:    iovLimit(c),
		Source:      true,
		CanWait:     true,
		Loopback:    true,
		Attrs: []fabric.Attr{
			{Name: "reach", Value: "this process only"},
			{Name: "queue", Value: fmt.Sprintf("%d datagrams", c.QueueDatagrams)},
		},
	}
}

func iovLimit(c Config) int {
	if c.NoGather {
		return 1
	}
	return 2
}
