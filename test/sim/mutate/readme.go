package main

import (
	"fmt"
	"os"
	"strings"
)

// The markers in the README between which the table stands.
const (
	markerBegin = "<!-- mutations -->"
	markerEnd   = "<!-- end of mutations -->"
)

// markdown returns the table of results.
func markdown(results []result, o *options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| name | fault | noticed by | seeds | what it said |\n|---|---|---|---|---|\n")
	swarm := 0
	for _, r := range results {
		by, seeds := "nothing", ""
		switch r.by {
		case "":
		case bySwarm:
			swarm++
			by, seeds = bySwarm, fmt.Sprint(r.seeds)
		default:
			by = "`" + strings.TrimPrefix(r.by, "go test ") + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.name, cell(r.fault), cell(by), seeds,
			code(r.said))
	}
	fmt.Fprintf(&b, "\nOf %d faults the swarm notices %d within %d seeds (from %d on), named tests "+
		"the rest.\n", len(results), swarm, o.seeds, o.first)
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// code is a cell that shows a program's words as they are.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(cell(s), "`", "'") + "`"
}

// rewrite replaces what stands between the markers of a file; without markers, both are appended.
func rewrite(path, table string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(data)
	i, j := strings.Index(text, markerBegin), strings.Index(text, markerEnd)
	switch {
	case i >= 0 && j > i:
		text = text[:i] + markerBegin + "\n" + table + text[j:]
	case i >= 0:
		text = text[:i] + markerBegin + "\n" + table + markerEnd + text[i+len(markerBegin):]
	default:
		text += "\n" + markerBegin + "\n" + table + markerEnd + "\n"
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
