package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"gobtl/btl"
	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/measure"
	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
)

// paramsCmd lists the parameters of the transport, as ucx_info -c does.
//
//nolint:lll // A struct tag cannot be broken.
type paramsCmd struct {
	Name   string   `arg:"" optional:"" help:"Show only this option."`
	Set    []string `help:"Show the values as they would be with this setting. Repeatable." placeholder:"NAME=VALUE" sep:"none"`
	Format string   `help:"text or json. Default: ${default}." placeholder:"NAME" enum:"text,json" default:"text"`
}

// udpMTUBytes is the size of the largest datagram of UDP.
const udpMTUBytes = 65507

// paramRecord describes one parameter of the transport.
type paramRecord struct {
	Name    string `json:"name"`
	Env     string `json:"env"`
	Default string `json:"default"`
	Value   string `json:"value"`
	Source  string `json:"source"` // default, env, flag
	Help    string `json:"help"`
}

// Validate is called by kong after parsing.
func (c *paramsCmd) Validate() error {
	f := plan.Flags{Set: c.Set}
	return f.ValidateSet()
}

// Run is called by kong.
func (c *paramsCmd) Run(env *environment) error {
	records, err := c.records()
	if err != nil {
		return err
	}
	if c.Name != "" {
		if !layers.IsParam(c.Name) {
			return layers.UnknownParam(c.Name)
		}
		records = slices.DeleteFunc(records, func(r paramRecord) bool { return r.Name != c.Name })
	}
	if c.Format == measure.FormatJSON {
		return measure.WriteJSON(env.stdout, struct {
			Schema string        `json:"schema"`
			Params []paramRecord `json:"params"`
		}{"gobtl-params/1", records})
	}
	return listParams(env.stdout, records)
}

// listParams writes the parameters as text for a terminal of 80 columns, with a few lines each.
func listParams(w io.Writer, records []paramRecord) error {
	text := ""
	for _, r := range records {
		text += r.Name + " = " + r.Value + " (" + r.Source + ")\n"
		for _, line := range linesOf(r.Help) {
			text += "    " + line + "\n"
		}
		text += "    " + r.Env + ", default " + r.Default + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// helpColumns is the length of the longest line of an indented help text.
const helpColumns = 76

// linesOf breaks a text between words into lines of up to helpColumns.
func linesOf(text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > helpColumns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// records lists the parameters with their present values and the origin of each value.
func (c *paramsCmd) records() ([]paramRecord, error) {
	var config btl.Config
	fromEnv, err := config.LoadEnv(os.Environ())
	if err != nil {
		return nil, err
	}
	if err := layers.ApplySettings(&config, c.Set); err != nil {
		return nil, err
	}
	// The check of a setting uses the largest datagram of UDP, because an invalid value is invalid
	// with any provider.
	if _, err := config.WithDefaults(fabric.Info{MTUBytes: udpMTUBytes}); err != nil {
		return nil, err
	}
	var records []paramRecord
	for _, p := range btl.Params() {
		r := paramRecord{
			Name: p.Name, Env: p.Env(), Default: p.Default, Value: p.Default, Source: "default",
			Help: p.Help,
		}
		if slices.Contains(fromEnv, p.Name) {
			r.Source, r.Value = "env", config.Get(p.Name)
		}
		if slices.ContainsFunc(c.Set, func(s string) bool { return settingName(s) == p.Name }) {
			r.Source, r.Value = "flag", config.Get(p.Name)
		}
		records = append(records, r)
	}
	return records, nil
}

// settingName returns the NAME of a setting NAME=VALUE.
func settingName(setting string) string {
	name, _, _ := strings.Cut(setting, "=")
	return name
}
