package shm

import "gobtl/fabric"

// ProviderName is the name under which the package registers its provider.
const ProviderName = "shm"

func init() { fabric.Register(provider{}) }

type provider struct{}

func (provider) Family() string { return ProviderName }
