//go:build linux && cgo

package ofi

import "strings"

// The constants in this block are the suffixes and separators in provider names such as
// "ofi/udp+offload".
const (
	// optionOffload at the end of a provider name turns on segmentation offload on the udp provider's
	// socket, as in "ofi/udp+offload".
	optionOffload = "+offload"
	// optionRDM at the end of a provider name selects the reliable endpoints of a provider that has
	// both reliable and datagram endpoints, as in "ofi/sockets+rdm".
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

// variantOf parses a provider name of the registry. The result "ok" of variantOf is true if the
// provider supports the option in the name or if the name has no option, and otherwise false.
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

// The method "is" reports whether the libfabric provider "prov" is the requested provider. If the
// request is for reliable endpoints, a layered provider (such as "tcp;ofi_rxm") matches both its
// own name and the name of its base provider ("tcp"). The name "udp" without "+rdm" never matches a
// layered provider.
func (v variant) is(prov string, rdm bool) bool {
	if v.prov == "" || strings.EqualFold(v.prov, prov) {
		return true
	}
	base, _, layered := strings.Cut(prov, layerMark)
	return rdm && layered && strings.EqualFold(v.prov, base) &&
		(v.rdm || !strings.EqualFold(base, udpProvider))
}

// The method "option" returns the option at the end of the provider name, or an empty string if the
// name has no option.
func (v variant) option() string {
	switch {
	case v.offload:
		return optionOffload
	case v.rdm:
		return optionRDM
	}
	return ""
}

// providerOf returns the name of the libfabric provider in a provider name of the registry, or an
// empty string if the name stands for the whole family.
func providerOf(name string) string {
	v, _ := variantOf(name)
	return v.prov
}
