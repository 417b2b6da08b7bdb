//go:build !linux

package udp

import (
	"fmt"

	"gobtl/fabric"
)

var errNotLinux = fmt.Errorf("%w: the udp provider uses system calls of Linux",
	fabric.ErrUnavailable)

func (provider) GetInfo(fabric.Hints) ([]fabric.Info, error) { return nil, errNotLinux }

func (provider) Open(fabric.Info, fabric.DomainConfig) (fabric.Domain, error) {
	return nil, errNotLinux
}
