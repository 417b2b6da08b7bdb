//go:build linux

package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"gobtl/test/netns/recovery"
)

func main() {
	// This program also runs as the processes on the hosts (see package recovery).
	if len(os.Args) == 3 && os.Args[1] == "role" {
		if err := recovery.RoleMain(os.Args[2], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	var c cli
	kong.Parse(&c, kong.Name("recovery"), kong.UsageOnError(),
		kong.Description("Measure loss, bottlenecks and incasts between network namespaces."))
	if err := c.run(os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "recovery:", err)
		os.Exit(1)
	}
}
