package shm

import "gobtl/fabric"

// ProviderName is what the package registers.
const ProviderName = "shm"

func init() { fabric.Register(provider{}) }

type provider struct{}

func (provider) Family() string { return ProviderName }
