package main

import (
	"fmt"

	"gobtl/cmd/btlbench/session"
	"gobtl/internal/report"
)

// versionCmd prints the version of the program and of its control protocol.
type versionCmd struct{}

// Run is called by kong.
func (*versionCmd) Run(env *environment) error {
	_, err := fmt.Fprintf(env.stdout, "btlbench %s, control protocol %d\n",
		report.Version(), session.ControlVersion)
	return err
}
