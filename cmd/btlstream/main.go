package main

import (
	"os"

	// The providers that the program offers, by name, to --device.
	_ "gobtl/fabric/net"
	_ "gobtl/fabric/ofi"
	_ "gobtl/fabric/udp"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
