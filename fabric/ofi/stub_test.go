//go:build !linux || !cgo

package ofi

import (
	"errors"
	"strings"
	"testing"

	"gobtl/fabric"
)

// TestLeftOut checks the error of a build without libfabric, which tells in one line what to do.
func TestLeftOut(t *testing.T) {
	_, infoErr := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp"})
	_, openErr := fabric.Open(fabric.Info{Provider: "ofi/udp"}, fabric.DomainConfig{})
	for _, err := range []error{infoErr, openErr} {
		if !errors.Is(err, fabric.ErrUnavailable) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
		text := err.Error()
		if strings.Contains(text, "\n") || !strings.Contains(text, "CGO_ENABLED=1") {
			t.Errorf("unhelpful: %q", text)
		}
	}
}
