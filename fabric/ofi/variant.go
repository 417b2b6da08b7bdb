//go:build linux && cgo

package ofi

import "strings"

// The constants below are the options of providers, which are suffixes of the names in the
// registry.
const (
	// optionOffload turns on segmentation offload on the udp provider's socket, as in
	// "ofi/udp+offload".
	optionOffload = "+offload"
	// optionRDM selects the reliable endpoints of a provider that also has datagram endpoints, as
	// in "ofi/sockets+rdm".
	optionRDM = "+rdm"

	udpProvider = "udp"
	shmProvider = "shm"

	// layerMark joins the names of a provider's layers, as in "tcp;ofi_rxm".
	layerMark = ";"
)

// variant is a parsed registry name.
type variant struct {
	prov         string // libfabric's name, or empty for the whole family
	rdm, offload bool   // the options
}

// variantOf parses a name of the registry. If the name has an option that no provider has, the
// result ok of variantOf is false.
func variantOf(name string) (variant, bool) {
	_, prov, _ := strings.Cut(name, "/")
	v := variant{prov: prov}
	at := strings.IndexByte(prov, '+')
	if at < 0 {
		return v, true
	}
	v.prov = prov[:at]
	switch prov[at:] {
	case optionOffload:
		v.offload = true
		return v, strings.EqualFold(v.prov, udpProvider)
	case optionRDM:
		v.rdm = true
		return v, v.prov != ""
	}
	return v, false
}

// The method named is reports whether the libfabric provider prov is the requested provider. A
// layered provider also matches the name of its base provider, if the layer makes the base
// provider's reliable endpoints. The name "udp" always means the provider without a layer.
func (v variant) is(prov string, rdm bool) bool {
	if v.prov == "" || strings.EqualFold(v.prov, prov) {
		return true
	}
	base, _, layered := strings.Cut(prov, layerMark)
	return rdm && layered && strings.EqualFold(v.prov, base) &&
		(v.rdm || !strings.EqualFold(base, udpProvider))
}

// The method option returns the option at the end of the registry name, or an empty string if there
// is none.
func (v variant) option() string {
	switch {
	case v.offload:
		return optionOffload
	case v.rdm:
		return optionRDM
	}
	return ""
}

// providerOf returns the libfabric provider's name that a name of the registry contains, or an
// empty string if the name stands for the whole family.
func providerOf(name string) string {
	v, _ := variantOf(name)
	return v.prov
}
