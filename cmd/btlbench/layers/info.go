package layers

import (
	"fmt"
	"strconv"

	"gobtl/fabric"
)

// InfoRecord is a fabric.Info with names for JSON.
type InfoRecord struct {
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
	Attrs         []AttrRecord `json:"attributes"`
	// Default marks the provider of --provider auto.
	Default bool `json:"default"`
}

// AttrRecord is a fabric.Attr with names for JSON.
type AttrRecord struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NewInfoRecord copies the description of a provider.
func NewInfoRecord(i *fabric.Info) InfoRecord {
	r := InfoRecord{
		Provider: i.Provider, Version: i.Version, Fabric: i.Fabric, Domain: i.Domain, Node: i.Node,
		Source: i.Src, AddrFormat: i.AddrFormat, MTUBytes: i.MTUBytes, InjectBytes: i.InjectBytes,
		TxPrefixBytes: i.TxPrefixBytes, RxPrefixBytes: i.RxPrefixBytes, TxDepth: i.TxDepth,
		RxDepth: i.RxDepth, IOVLimit: i.IOVLimit, LocalMR: i.LocalMR, TellsSource: i.Source,
		CanWait: i.CanWait, Loopback: i.Loopback, Reliable: i.Reliable, Ordered: i.Ordered,
		Attrs: newAttrRecords(i.Attrs),
	}
	return r
}

// Kind is the name of the service.
func (r *InfoRecord) Kind() string {
	if r.Reliable {
		return "reliable"
	}
	return "datagram"
}

// Title is the provider's name, with a mark if the provider is the default.
func (r *InfoRecord) Title() string {
	if r.Default {
		return "* " + r.Provider
	}
	return "  " + r.Provider
}

// Attributes are the other fields of a record, for people.
func (r *InfoRecord) Attributes() []AttrRecord {
	attrs := []AttrRecord{
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

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
