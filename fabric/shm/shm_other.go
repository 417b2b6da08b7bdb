//go:build !linux

package shm

import (
	"fmt"

	"gobtl/fabric"
)

var errNotLinux = fmt.Errorf("%w: the shm provider uses memfd and other calls of Linux",
	fabric.ErrUnavailable)

func (provider) GetInfo(fabric.Hints) ([]fabric.Info, error) { return nil, errNotLinux }

func (provider) Open(fabric.Info, fabric.DomainConfig) (fabric.Domain, error) {
	return nil, errNotLinux
}
