package main

import (
	"os"

	// The imports below are the network providers that the option --device can name.
	_ "gobtl/fabric/net"
	_ "gobtl/fabric/ofi"
	_ "gobtl/fabric/udp"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
