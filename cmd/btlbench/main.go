package main

import (
	"os"

	// The following imports are the providers that --provider can name.
	_ "gobtl/fabric/net"
	_ "gobtl/fabric/ofi"
	_ "gobtl/fabric/shm"
	_ "gobtl/fabric/udp"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
