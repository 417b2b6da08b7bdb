package main

import (
	"os"

	// The imports below are the network providers that the option --provider can name.
	_ "gobtl/fabric/udp"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
