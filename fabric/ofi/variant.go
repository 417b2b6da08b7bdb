//go:build linux && cgo

package ofi

import "strings"

// Options at the end of a provider's registry name.
const (
	// optionOffload sets segmentation offload on the udp provider's socket: "ofi/udp+offload".
	optionOffload = "+offload"
	// optionRDM asks for the reliable endpoints of a provider that has datagram endpoints too:
	// "ofi/sockets+rdm".
	optionRDM = "+rdm"

	udpProvider = "udp"
	shmProvider = "shm"

	// layerMark joins the names of a provider's layers: "tcp;ofi_rxm".
	layerMark = ";"
)

// variant is a decoded registry name.
type variant struct {
	prov         string // libfabric's name, empty for all of the family
	rdm, offload bool   // the options
}

// variantOf reads a registry name; false for options that no provider has.
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

// is says whether libfabric's provider prov is the one asked for. A layered provider is known by
// the name of the one it is built on too, if it is what that one's reliable endpoints are. "udp" is
// always the bare one.
func (v variant) is(prov string, rdm bool) bool {
	if v.prov == "" || strings.EqualFold(v.prov, prov) {
		return true
	}
	base, _, layered := strings.Cut(prov, layerMark)
	return rdm && layered && strings.EqualFold(v.prov, base) &&
		(v.rdm || !strings.EqualFold(base, udpProvider))
}

// option is the end of the registry name.
func (v variant) option() string {
	switch {
	case v.offload:
		return optionOffload
	case v.rdm:
		return optionRDM
	}
	return ""
}

// providerOf returns libfabric's name of a registry name, empty for all of the family.
func providerOf(name string) string {
	v, _ := variantOf(name)
	return v.prov
}
