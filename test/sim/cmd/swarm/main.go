package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

func main() {
	var c cli
	kong.Parse(&c, kong.Name("swarm"), kong.UsageOnError(),
		kong.Description("Simulate clusters of modules under faults, one per seed."))
	if err := c.run(os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "swarm:", err)
		}
		os.Exit(1)
	}
}
