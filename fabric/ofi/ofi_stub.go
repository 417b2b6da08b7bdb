//go:build !linux || !cgo

package ofi

import (
	"fmt"

	"gobtl/fabric"
)

// stub replaces the providers in a build without libfabric. All methods of the type "stub" return
// an error that says that the program was built without libfabric.
type stub struct{}

func init() { fabric.Register(stub{}) }

var errLeftOut = fmt.Errorf("%w: libfabric was left out of this build; for the ofi/ providers "+
	"install libfabric-dev and build on Linux with CGO_ENABLED=1", fabric.ErrUnavailable)

func (stub) Family() string { return family }

func (stub) GetInfo(fabric.Hints) ([]fabric.Info, error) { return nil, errLeftOut }

func (stub) Open(fabric.Info, fabric.DomainConfig) (fabric.Domain, error) { return nil, errLeftOut }
