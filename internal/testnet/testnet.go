// Package testnet opens transport modules on an in-process network (fabric/mem), for examples and
// tests.
package testnet

import (
	"log"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// Module opens a transport module with default settings on the given network. A real program does
// not call Module, but opens a Domain of a provider by fabric.GetInfo and fabric.Open.
func Module(network *mem.Network) *btl.Module {
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	Check(err)
	var cfg btl.Config
	sizes, err := cfg.DomainConfig(infos[0])
	Check(err)
	domain, err := network.Open(sizes)
	Check(err)
	module, err := btl.Open(domain, cfg)
	Check(err)
	return module
}

// Check prints err and ends the program, unless err is nil.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
