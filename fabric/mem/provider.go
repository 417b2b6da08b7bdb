package mem

import (
	"fmt"

	"gobtl/fabric"
)

// Only the registry uses the default network. A test that needs a network of its own calls New.
func init() { fabric.Register(New(Config{}).Provider()) }

type provider struct{ nw *Network }

// Provider returns the network as a fabric.Provider.
func (nw *Network) Provider() fabric.Provider { return provider{nw} }

func (provider) Family() string { return family }

// GetInfo selects this provider for its name and for hints without a provider name. The network
// has no addresses to bind, so any Hints.Node other than the domain's name selects nothing.
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
