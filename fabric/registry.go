package fabric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Provider opens Domains of one family of networks, such as "ofi" or "udp".
type Provider interface {
	// Family returns the beginning of the provider's names, up to the first slash or semicolon.
	// For example, the family of "ofi/udp" is "ofi", and the family of "udp" and of its variant
	// "udp;nogso" is "udp".
	Family() string
	// GetInfo lists the Infos that the hints select, best first. An empty Hints.Provider selects all
	// networks of the provider's family. If the hints select no Info, GetInfo returns an empty list
	// and no error. If the provider cannot run on this machine, the error of GetInfo wraps
	// ErrUnavailable and gives the reason. If the provider cannot parse Hints.Node, the error of
	// GetInfo wraps ErrNoProvider.
	GetInfo(h Hints) ([]Info, error)
	// Open opens the Domain that an Info of this provider describes.
	Open(info Info, cfg DomainConfig) (Domain, error)
}

var registry struct {
	sync.Mutex
	providers []Provider
}

// Register adds a provider to the registry. Providers call Register in the init functions of their
// packages. If a provider of the same family is already registered, Register replaces it.
func Register(p Provider) {
	registry.Lock()
	defer registry.Unlock()
	registry.providers = slices.DeleteFunc(registry.providers, func(q Provider) bool {
		return q.Family() == p.Family()
	})
	registry.providers = append(registry.providers, p)
	slices.SortFunc(registry.providers, func(a, b Provider) int {
		return strings.Compare(a.Family(), b.Family())
	})
}

func registered() []Provider {
	registry.Lock()
	defer registry.Unlock()
	return slices.Clone(registry.providers)
}

// Families lists the families of the registered providers.
func Families() []string {
	providers := registered()
	names := make([]string, 0, len(providers))
	for _, p := range providers {
		names = append(names, p.Family())
	}
	return names
}

// FamilyOf returns the family of a provider name, such as "ofi" for "ofi/udp".
func FamilyOf(name string) string {
	if i := strings.IndexAny(name, "/;"); i >= 0 {
		return name[:i]
	}
	return name
}

// GetInfo asks every registered provider that matches the hints for its Infos, as fi_getinfo does.
// If no provider returns an Info, the error of GetInfo wraps ErrNoProvider, or ErrUnavailable if a
// matching provider cannot run on this machine.
func GetInfo(h Hints) ([]Info, error) {
	var infos []Info
	var reasons []error
	for _, p := range registered() {
		if h.Provider != "" && FamilyOf(h.Provider) != p.Family() {
			continue
		}
		hints := h
		if h.Provider == p.Family()+"/" {
			hints.Provider = ""
		}
		got, err := p.GetInfo(hints)
		if err != nil {
			reasons = append(reasons, err)
		}
		infos = append(infos, got...)
	}
	if len(infos) > 0 {
		return infos, nil
	}
	if len(reasons) > 0 {
		return nil, errors.Join(reasons...)
	}
	return nil, nothingFor(h)
}

func nothingFor(h Hints) error {
	families := Families()
	family := FamilyOf(h.Provider)
	switch {
	case len(families) == 0:
		return fmt.Errorf("%w: this program imports none; write import _ \"gobtl/fabric/udp\"",
			ErrNoProvider)
	case family != "" && !slices.Contains(families, family):
		return fmt.Errorf("%w: this program does not import %q, only %s; write "+
			"import _ \"gobtl/fabric/%s\" if there is such a package", ErrNoProvider, h.Provider,
			strings.Join(families, ", "), family)
	case h.Node != "":
		return fmt.Errorf("%w here for node %q (provider %q, domain %q): a node is an address or a "+
			"device of this host, over udp with ports or without: 192.0.2.1:4000, eth0:4000, :4000",
			ErrNoProvider, h.Node, h.Provider, h.Domain)
	}
	return fmt.Errorf("%w: provider %q, domain %q (registered families: %s)", ErrNoProvider,
		h.Provider, h.Domain, strings.Join(families, ", "))
}

// Open opens the Domain that an Info describes.
func Open(info Info, cfg DomainConfig) (Domain, error) {
	for _, p := range registered() {
		if p.Family() == FamilyOf(info.Provider) {
			return p.Open(info, cfg)
		}
	}
	return nil, nothingFor(Hints{Provider: info.Provider})
}
