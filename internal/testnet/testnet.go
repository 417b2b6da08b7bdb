// Package testnet opens transport modules on a network inside the process, for examples and tests.
package testnet

import (
	"log"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// Module opens a module with the default settings on a network. A real program opens a Domain of
// the provider that it uses instead of calling Module (see fabric.GetInfo and fabric.Open).
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

// Check ends the program with a message if err is not nil.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
