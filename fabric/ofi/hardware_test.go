//go:build linux && cgo

package ofi

import (
	"errors"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
)

// TestConformanceHardware runs the suite on a device of each provider for RDMA hardware. The
// provider is skipped on a machine without such a device.
func TestConformanceHardware(t *testing.T) {
	for _, name := range []string{"ofi/verbs", "ofi/efa", "ofi/usnic"} {
		t.Run(name, func(t *testing.T) {
			notRaced(t)
			infos, err := fabric.GetInfo(fabric.Hints{Provider: name})
			if errors.Is(err, fabric.ErrNoProvider) || errors.Is(err, fabric.ErrUnavailable) {
				t.Skipf("no device of %s: %v", name, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			open := func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
				tb.Helper()
				d, err := fabric.Open(infos[0], cfg)
				if err != nil {
					tb.Fatal(err)
				}
				tb.Cleanup(func() {
					if err := d.Close(); err != nil {
						tb.Errorf("Close: %v", err)
					}
				})
				return d
			}
			fabrictest.Run(t, fabrictest.Fixture{Name: name, Open: open})
		})
	}
}
