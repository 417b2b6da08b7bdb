package fabric

import (
	"errors"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name, infos string // provider@domain, with "!" for a reliable one
		want        int
		reason      string
	}{
		{"nothing", "", -1, "no provider"},
		{"kernel UDP", "ofi/udp@lo udp@lo", 1, "no RDMA hardware"},
		{"its first", "ofi/udp@lo udp@eth0 udp@lo", 1, "kernel's UDP"},
		{"libfabric's UDP alone", "ofi/sockets@lo ofi/udp@lo", 1, "libfabric's UDP"},
		{"Go's UDP", "net@lo ofi/udp@lo", 0, "package net"},
		{"Go's UDP beside the kernel's", "net@lo udp@lo", 1, "kernel's UDP"},
		{"variants are asked for", "udp;nogso@lo ofi/udp+offload@lo ofi/udp@lo", 2, "libfabric's"},
		{"verbs", "ofi/udp@lo ofi/verbs@mlx5_0-dgram udp@lo", 1, "verbs device mlx5_0"},
		{"efa", "ofi/efa@rdmap0s6-dgrm ofi/udp@lo", 0, "efa device"},
		{"the better of two by the list", "ofi/usnic@usnic_0 ofi/verbs@mlx5_0", 0, "usnic"},
		{"emulated devices", "ofi/verbs@rxe0-dgram ofi/verbs@siw_eth0 udp@lo", 2, "no RDMA"},
		{"real beside emulated", "ofi/verbs@rxe0-dgram ofi/verbs@mlx5_0-dgram", 1, "mlx5_0"},
		{"reliable ones are asked for", "ofi/efa@x! ofi/verbs@mlx5_0!", -1, "no provider"},
		{"psm3 on sockets", "ofi/psm3@eth0 udp@eth0", 1, "no RDMA"},
		{"shared memory is told of", "shm@shm udp@lo", 1, "see the same /dev/shm"},
		{"shared memory alone", "shm@shm!", -1, "shm, is faster"},
		{"for tests, for one host", "mem/local@mem ofi/shm@shm sim/x@sim", -1, "no provider"},
		{"names by their end", "mem/verbsy@x verbs@y", -1, "no provider"},
	} {
		var infos []Info
		for field := range strings.FieldsSeq(c.infos) {
			provider, domain, _ := strings.Cut(field, "@")
			domain, reliable := strings.CutSuffix(domain, "!")
			infos = append(infos, Info{Provider: provider, Domain: domain, Reliable: reliable})
		}
		got, reason := Choose(infos)
		if got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: %d, %q; want %d, %q", c.name, got, reason, c.want, c.reason)
		}
	}
}

// namedProvider records the hints of GetInfo.
type namedProvider struct {
	Provider
	family string
	asked  []string
}

func (p *namedProvider) Family() string { return p.family }

func (p *namedProvider) GetInfo(h Hints) ([]Info, error) {
	p.asked = append(p.asked, h.Provider)
	return []Info{{Provider: p.family}}, nil
}

// TestFamilies checks which names reach which provider.
func TestFamilies(t *testing.T) {
	p := &namedProvider{family: "testfam"}
	Register(p)
	for _, c := range []struct {
		name, reaches string
		found         bool
	}{
		{"testfam", "testfam", true},
		{"testfam/", "", true},
		{"testfam/x", "testfam/x", true},
		{"testfam;no", "testfam;no", true},
		{"testfam/x;y", "testfam/x;y", true},
		{"testfa", "", false},
		{"testfam+x", "", false},
		{"", "", true},
	} {
		p.asked = nil
		_, err := GetInfo(Hints{Provider: c.name})
		if (err == nil) != c.found || len(p.asked) > 0 != c.found {
			t.Errorf("%q: asked for %q, %v", c.name, p.asked, err)
		} else if c.found && p.asked[0] != c.reaches {
			t.Errorf("%q reached the provider as %q, want %q", c.name, p.asked[0], c.reaches)
		}
	}
}

// TestNothingMatches checks that the error for hints without a match says what is missing. Either
// an import is missing, or an address of this host.
func TestNothingMatches(t *testing.T) {
	before := registered()
	registry.providers = nil
	defer func() { registry.providers = before }()
	for _, c := range []struct {
		hints Hints
		says  string
	}{
		{Hints{}, `this program imports none; write import _ "gobtl/fabric/udp"`},
		{Hints{Provider: "shm"}, "imports none"},
	} {
		if err := nothingFor(c.hints); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.hints, err)
		}
	}
	Register(&namedProvider{family: "zfam"})
	for _, c := range []struct {
		hints Hints
		says  string
	}{
		{Hints{Provider: "shm"}, `write import _ "gobtl/fabric/shm"`},
		{Hints{Provider: "zfam", Node: "eth7"}, `node "eth7"`},
		{Hints{Provider: "zfam/x"}, `provider "zfam/x"`},
	} {
		err := nothingFor(c.hints)
		if !errors.Is(err, ErrNoProvider) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.hints, err)
		}
	}
}
