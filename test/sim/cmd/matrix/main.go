package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

func main() {
	var c cli
	kong.Parse(&c, kong.Name("matrix"), kong.UsageOnError(),
		kong.Description("Measure the recovery profiles on simulated paths of many kinds."))
	if err := c.run(os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}
