package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/measure"
	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
	"gobtl/internal/plain"
	"gobtl/internal/report"
)

// infoCmd lists the networks that the fabric offers, as fi_info does.
//
//nolint:lll // A struct tag cannot be broken.
type infoCmd struct {
	Provider string `help:"Only this provider, or family (\"ofi/\")." placeholder:"NAME"`
	Domain   string `help:"Only this device." placeholder:"NAME"`
	Node     string `help:"Only networks with this local address." placeholder:"ADDR"`
	Verbose  bool   `short:"v" help:"All attributes of each network."`
	Format   string `help:"text or json. Default: ${default}." placeholder:"NAME" enum:"text,json" default:"text"`
}

// infoDocument is the JSON form of the output.
type infoDocument struct {
	Schema      string              `json:"schema"`
	Providers   []layers.InfoRecord `json:"providers"`
	Unavailable []unavailableInfo   `json:"unavailable"`
	// Default is the provider that --provider auto selects, or null if there is none.
	Default *layers.Choice `json:"default"`
}

type unavailableInfo struct {
	Family string `json:"family"`
	Reason string `json:"reason"`
}

// Run is called by kong.
func (c *infoCmd) Run(env *environment) error {
	d := &infoDocument{
		Schema: "gobtl-info/1", Providers: []layers.InfoRecord{}, Unavailable: []unavailableInfo{},
	}
	for _, family := range fabric.Families() {
		hints := fabric.Hints{Provider: c.Provider, Domain: c.Domain, Node: c.Node}
		if hints.Provider == "" {
			hints.Provider = family + "/"
		}
		if fabric.FamilyOf(hints.Provider) != family {
			continue
		}
		infos, err := fabric.GetInfo(hints)
		if errors.Is(err, fabric.ErrUnavailable) {
			d.Unavailable = append(d.Unavailable, unavailableInfo{family, plain.Text(err.Error())})
		} else if err != nil && !errors.Is(err, fabric.ErrNoProvider) {
			return err
		}
		for i := range infos {
			d.Providers = append(d.Providers, layers.NewInfoRecord(&infos[i]))
		}
	}
	if len(d.Providers)+len(d.Unavailable) == 0 {
		if err := c.nothing(); err != nil {
			return err
		}
	}
	c.markDefault(d)
	if c.Format == measure.FormatJSON {
		return measure.WriteJSON(env.stdout, d)
	}
	return c.writeText(env.stdout, d)
}

// nothing returns an error that names the flags that exclude all providers, or nil if there are no
// such flags.
func (c *infoCmd) nothing() error {
	names := layers.ProviderNames()
	known := func(name string) bool { return strings.HasPrefix(name, c.Provider) }
	if !slices.ContainsFunc(names, known) {
		return fmt.Errorf("no provider matches %q%s", c.Provider, plan.Suggestion(c.Provider, names))
	}
	flags := ""
	for _, f := range [][2]string{
		{"provider", c.Provider}, {"domain", c.Domain}, {"node", c.Node},
	} {
		if f[1] != "" {
			flags += fmt.Sprintf(" --%s %q", f[0], f[1])
		}
	}
	if flags == "" {
		return nil
	}
	return fmt.Errorf("no provider matches%s; see \"btlbench info\"", flags)
}

// markDefault finds the provider that --provider auto selects among all providers. If the list has
// the provider of --provider auto, markDefault marks the provider and puts it first.
func (c *infoCmd) markDefault(d *infoDocument) {
	chosen, err := layers.ChooseProvider(fabric.Hints{Domain: c.Domain, Node: c.Node}, false)
	if err != nil {
		return
	}
	d.Default = &chosen
	is := func(r layers.InfoRecord) bool { return r.Provider == chosen.Provider }
	slices.SortStableFunc(d.Providers, func(a, b layers.InfoRecord) int {
		switch {
		case is(a) == is(b):
			return 0
		case is(a):
			return -1
		}
		return 1
	})
	i := slices.IndexFunc(d.Providers, func(r layers.InfoRecord) bool {
		return is(r) && r.Domain == chosen.Domain
	})
	if i >= 0 {
		d.Providers[i].Default = true
	}
}

func (c *infoCmd) writeText(w io.Writer, d *infoDocument) error {
	switch {
	case len(d.Providers) == 0:
	case c.Verbose:
		for i := range d.Providers {
			writeInfoBlock(w, &d.Providers[i])
		}
	default:
		writeInfoTable(w, d.Providers)
	}
	for _, u := range d.Unavailable {
		if _, err := fmt.Fprintf(w, "%s: not available here: %s\n", u.Family, u.Reason); err != nil {
			return err
		}
	}
	if d.Default != nil {
		_, err := fmt.Fprintf(w, "* default %s: %s\n", d.Default.Provider, d.Default.Reason)
		if err != nil {
			return err
		}
	}
	if len(d.Providers) > 0 && !c.Verbose {
		_, err := fmt.Fprintln(w, "(all attributes: btlbench info -v)")
		return err
	}
	return nil
}

// writeInfoBlock writes one record in the format of fi_info -v.
func writeInfoBlock(w io.Writer, r *layers.InfoRecord) {
	t := report.NewWriter(w)
	t.Style().Options.SeparateHeader = false
	t.SetTitle("%s", strings.TrimSpace(r.Title()))
	for _, a := range r.Attributes() {
		if a.Value != "" {
			t.AppendRow([]any{"  " + a.Name, a.Value})
		}
	}
	t.Render()
	_, _ = fmt.Fprintln(w) // As Render, which reports no errors.
}

func writeInfoTable(w io.Writer, records []layers.InfoRecord) {
	t := report.NewWriter(w)
	t.AppendHeader([]any{
		"  provider", "domain", "address", "MTU", "kind",
	})
	for i := range records {
		r := &records[i]
		address := r.Source
		if address == "" {
			address = r.AddrFormat
		}
		t.AppendRow([]any{
			r.Title(), r.Domain, address, r.MTUBytes, r.Kind(),
		})
	}
	t.Render()
}
