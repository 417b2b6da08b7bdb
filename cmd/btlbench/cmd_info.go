package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gobtl/fabric"
	"gobtl/internal/report"
)

// infoCmd lists what the fabric offers, as fi_info does.
type infoCmd struct {
	Provider string `help:"Only this provider, or family (\"ofi/\")." placeholder:"NAME"`
	Domain   string `help:"Only this device." placeholder:"NAME"`
	Node     string `help:"Only what reaches from this local address." placeholder:"ADDR"`
	Verbose  bool   `short:"v" help:"Every attribute, a block for each."`
	Format   string `help:"table or json." enum:"table,json" default:"table"`
}

// infoDocument is the JSON form.
type infoDocument struct {
	Schema      string            `json:"schema"`
	Providers   []infoRecord      `json:"providers"`
	Unavailable []unavailableInfo `json:"unavailable"`
	// Default is what --provider auto stands for; null if it stands for nothing here.
	Default *choice `json:"default"`
}

// infoRecord is a fabric.Info with names for JSON.
type infoRecord struct {
	Provider      string       `json:"provider"`
	Version       string       `json:"version"`
	Fabric        string       `json:"fabric"`
	Domain        string       `json:"domain"`
	Node          string       `json:"node"`
	Source        string       `json:"source_address"`
	AddrFormat    string       `json:"addr_format"`
	MTUBytes      int          `json:"mtu_bytes"`
	InjectBytes   int          `json:"inject_bytes"`
	TxPrefixBytes int          `json:"tx_prefix_bytes"`
	RxPrefixBytes int          `json:"rx_prefix_bytes"`
	TxDepth       int          `json:"tx_depth"`
	RxDepth       int          `json:"rx_depth"`
	IOVLimit      int          `json:"iov_limit"`
	LocalMR       bool         `json:"local_mr"`
	TellsSource   bool         `json:"tells_source"`
	CanWait       bool         `json:"can_wait"`
	Loopback      bool         `json:"loopback"`
	Reliable      bool         `json:"reliable"`
	Ordered       bool         `json:"ordered"`
	Attrs         []attrRecord `json:"attributes"`
	// Default marks the one of --provider auto.
	Default bool `json:"default"`
}

type attrRecord struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type unavailableInfo struct {
	Family string `json:"family"`
	Reason string `json:"reason"`
}

// Run is called by kong.
func (c *infoCmd) Run(env *environment) error {
	d := &infoDocument{
		Schema: "gobtl-info/1", Providers: []infoRecord{}, Unavailable: []unavailableInfo{},
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
			d.Unavailable = append(d.Unavailable, unavailableInfo{family, oneLine(err.Error())})
		} else if err != nil && !errors.Is(err, fabric.ErrNoProvider) {
			return err
		}
		for i := range infos {
			d.Providers = append(d.Providers, newInfoRecord(&infos[i]))
		}
	}
	if c.Provider != "" && len(d.Providers)+len(d.Unavailable) == 0 {
		return fmt.Errorf("no provider matches %q%s", c.Provider,
			suggestion(c.Provider, providerNames()))
	}
	c.markDefault(d)
	if c.Format == formatJSON {
		return writeJSON(env.stdout, d)
	}
	return c.writeText(env.stdout, d)
}

// markDefault finds out what --provider auto stands for, among all providers. If it is listed, it
// is marked, and its provider comes first.
func (c *infoCmd) markDefault(d *infoDocument) {
	chosen, err := chooseProvider(fabric.Hints{Domain: c.Domain, Node: c.Node}, false)
	if err != nil {
		return
	}
	d.Default = &chosen
	is := func(r infoRecord) bool { return r.Provider == chosen.Provider }
	slices.SortStableFunc(d.Providers, func(a, b infoRecord) int {
		switch {
		case is(a) == is(b):
			return 0
		case is(a):
			return -1
		}
		return 1
	})
	i := slices.IndexFunc(d.Providers, func(r infoRecord) bool {
		return is(r) && r.Domain == chosen.Domain
	})
	if i >= 0 {
		d.Providers[i].Default = true
	}
}

func newInfoRecord(i *fabric.Info) infoRecord {
	r := infoRecord{
		Provider: i.Provider, Version: i.Version, Fabric: i.Fabric, Domain: i.Domain, Node: i.Node,
		Source: i.Src, AddrFormat: i.AddrFormat, MTUBytes: i.MTUBytes, InjectBytes: i.InjectBytes,
		TxPrefixBytes: i.TxPrefixBytes, RxPrefixBytes: i.RxPrefixBytes, TxDepth: i.TxDepth,
		RxDepth: i.RxDepth, IOVLimit: i.IOVLimit, LocalMR: i.LocalMR, TellsSource: i.Source,
		CanWait: i.CanWait, Loopback: i.Loopback, Reliable: i.Reliable, Ordered: i.Ordered,
		Attrs: newAttrRecords(i.Attrs),
	}
	return r
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

// kind names the service.
func (r *infoRecord) kind() string {
	if r.Reliable {
		return "reliable"
	}
	return "datagram"
}

// title is the provider's name, with a mark if it is the default.
func (r *infoRecord) title() string {
	if r.Default {
		return "* " + r.Provider
	}
	return "  " + r.Provider
}

// attributes are the fields of a record beyond its name, for people.
func (r *infoRecord) attributes() []attrRecord {
	attrs := []attrRecord{
		{"version", r.Version},
		{"fabric", r.Fabric},
		{"domain", r.Domain},
		{"node", r.Node},
		{"source address", r.Source},
		{"address format", r.AddrFormat},
		{"MTU", strconv.Itoa(r.MTUBytes) + " B"},
		{"inject", strconv.Itoa(r.InjectBytes) + " B"},
		{"prefix tx/rx", fmt.Sprintf("%d/%d B", r.TxPrefixBytes, r.RxPrefixBytes)},
		{"depth tx/rx", fmt.Sprintf("%d/%d", r.TxDepth, r.RxDepth)},
		{"iov limit", strconv.Itoa(r.IOVLimit)},
		{"local registration", yesNo(r.LocalMR)},
		{"tells source", yesNo(r.TellsSource)},
		{"can wait", yesNo(r.CanWait)},
		{"loopback", yesNo(r.Loopback)},
		{"reliable", yesNo(r.Reliable)},
		{"ordered", yesNo(r.Ordered)},
	}
	return append(attrs, r.Attrs...)
}

// writeInfoBlock writes one record as fi_info -v does.
func writeInfoBlock(w io.Writer, r *infoRecord) {
	t := report.NewWriter(w)
	t.Style().Options.SeparateHeader = false
	t.SetTitle("%s", strings.TrimSpace(r.title()))
	for _, a := range r.attributes() {
		if a.Value != "" {
			t.AppendRow([]any{"  " + a.Name, a.Value})
		}
	}
	t.Render()
	_, _ = fmt.Fprintln(w) // As Render, which reports no errors.
}

func writeInfoTable(w io.Writer, records []infoRecord) {
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
			r.title(), r.Domain, address, r.MTUBytes, r.kind(),
		})
	}
	t.Render()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
