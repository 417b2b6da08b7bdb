package main

import (
	"bytes"
	"fmt"
	"os"

	"gobtl/cmd/btlbench/page"
)

// reportCmd makes an HTML page from reports.
//
//nolint:lll // A struct tag cannot be broken.
type reportCmd struct {
	Files []string `arg:"" name:"file" help:"Reports of pair and run: of --format json or --json-stream."`
	Out   string   `short:"o" help:"File to write the page to; - is standard output. Default: ${default}." default:"report.html" placeholder:"FILE"`
}

// Run is called by kong.
func (c *reportCmd) Run(env *environment) error {
	var runs []*page.Run
	for _, name := range c.Files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		run, err := page.Read(name, f)
		_ = f.Close() // It was only read.
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	var b bytes.Buffer
	if err := page.Write(&b, runs); err != nil {
		return err
	}
	if c.Out == "-" {
		_, err := env.stdout.Write(b.Bytes())
		return err
	}
	//nolint:gosec // Anybody may read it.
	err := os.WriteFile(c.Out, b.Bytes(), 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "%s: %d runs\n", c.Out, len(runs))
	return err
}
