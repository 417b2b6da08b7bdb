//go:build linux && cgo

package ofi

import (
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
)

func TestConformanceOffload(t *testing.T) {
	fabrictest.Run(t, fabrictest.Fixture{Name: offloadName, Open: loopback(offloadName)})
}

func TestOffloadStarts(t *testing.T) {
	d := open(t, offloadName, fabric.DomainConfig{Buffers: 64})
	openEndpoint(t, d, fabric.EndpointConfig{})
	attrs := d.Info().Attrs
	if got := attrs[len(attrs)-1]; got != (fabric.Attr{Name: "offload", Value: "gso, gro"}) {
		t.Errorf("the last attribute is %+v", got)
	}
}
