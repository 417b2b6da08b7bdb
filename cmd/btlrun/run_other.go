//go:build !unix

package main

import (
	"fmt"
	"os"
)

func run(_ []string, _, _, stderr *os.File) int {
	fmt.Fprintln(stderr, "btlrun: not for this system")
	return 1
}
