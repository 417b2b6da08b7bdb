package stream

import (
	"net"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// town is a domain that tells hosts apart.
type town struct {
	fabric.Domain
	hosts map[int]string // IP addresses by node; any other node is a host of its own
}

func (town) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}

func (d town) FormatName(name []byte) string { return net.JoinHostPort(string(d.Host(name)), "1") }

func (d town) Host(name []byte) []byte {
	if p, err := sim.ParsePort(name); err == nil && d.hosts[p.Node] != "" {
		return []byte(d.hosts[p.Node])
	}
	return name
}
