//go:build linux && cgo

package ofi

/*
#include "shim.h"
*/
import "C"

import (
	"slices"
	"strings"
)

// The constants below describe deviations of providers from the properties that they report. If a
// deviation has no version number, all versions deviate.
const (
	socketsProvider = "sockets"

	// The sockets provider hangs for ever if the TCP receive window closes within the
	// header of a message. The bytes that an endpoint of the sockets provider has in flight are
	// limited to half of the smallest initial TCP window of any system.
	socketsHeaderBytes   = 24
	socketsMTUBytes      = 1 << 10
	socketsTxDepth       = 31
	socketsUnderWayBytes = 32 << 10

	// shmNoRemove is the first version of the shm provider with a defect in the removal of
	// addresses (200 is the version in libfabric 2.0). With this defect, the provider confuses a
	// new address with an address that was removed, and a send to the new address crashes.
	shmNoRemove = 200
	// The names of datagram providers with libfabric's own reliability layer end in rxdLayer.
	rxdLayer = layerMark + "ofi_rxd"

	shmPeers = 256
)

// quirks are the workarounds that a provider needs in addition to limits on its sizes.
type quirks struct {
	// If privateSends is true, the provider sends its own control messages through the same queue
	// as the sends of the caller.
	privateSends bool
	// If removeComplains is true, fi_av_remove returns EINVAL for a peer without a connection,
	// although it removes the peer (sockets provider of libfabric 2).
	removeComplains bool
	// If copies is true, the provider never completes sends that the peer does not accept. If
	// copies is true, the shim (the C part of the package) passes copies of the sends to the
	// provider.
	copies bool
	// If peers must not be removed from the provider, keptPeers is the size of the provider's table
	// of peers. If keptPeers is 0, peers may be removed.
	keptPeers int
}

// The method flags returns the quirks in the format of the shim (the C part of the package).
func (q quirks) flags() C.uint32_t {
	var flags C.uint32_t
	if q.privateSends {
		flags |= C.GOFI_PRIVATE_SENDS
	}
	if q.removeComplains {
		flags |= C.GOFI_REMOVE_COMPLAINS
	}
	if q.keptPeers > 0 {
		flags |= C.GOFI_KEEPS_PEERS
	}
	if q.copies {
		flags |= C.GOFI_COPIES
	}
	return flags
}

// The method tamed returns the limits l, reduced to the sizes with which the provider works
// correctly. The argument major of tamed is the first number of the provider's version, which is
// 117 in libfabric 1.17 and 206 in libfabric 2.6.
func (l limits) tamed(prov string, major uint32) limits {
	switch prov {
	case socketsProvider:
		l.maxMsgBytes = min(l.maxMsgBytes, socketsMTUBytes)
		l.txDepth = min(l.txDepth, socketsTxDepth)
		l.injectBytes = 0
		l.quirks = quirks{privateSends: true, removeComplains: true}
	case shmProvider:
		if major >= shmNoRemove {
			l.quirks.keptPeers = shmPeers
		}
		// With the shm provider, a message above injectBytes stays in the sender's memory until
		// the peer accepts it, even if the peer has ended.
		l.maxMsgBytes = min(l.maxMsgBytes, l.injectBytes)
	default:
		l.quirks.copies = l.reliable && keepsUntaken(prov)
	}
	return l
}

// keepsUntaken reports whether a reliable provider never completes sends that the peer does not
// accept. Providers over TCP keep sends to a peer that has stalled, and the layer rxd even keeps
// sends to a peer that has ended.
func keepsUntaken(prov string) bool {
	core, _, _ := strings.Cut(prov, layerMark)
	return slices.Contains([]string{"net", "tcp", udpProvider}, core)
}

// The list unfit has the providers that GetInfo does not return, because they have failed the
// conformance tests. The provider sm2 (shared memory) crashes a process with two endpoints, and lnx
// links other providers together.
var unfit = []string{"sm2", "lnx"}

// The function fit reports whether GetInfo may return a provider. In a provider's name, the name of
// a layer follows after ";" or ":".
func fit(prov string) bool {
	return !slices.ContainsFunc(unfit, func(name string) bool {
		return prov == name || strings.HasPrefix(prov, name+layerMark) ||
			strings.HasSuffix(prov, layerMark+name) || strings.HasSuffix(prov, ":"+name)
	})
}

// canWait reports whether a provider's queues have a wait descriptor. libfabric has no attribute
// that tells this. The Info of an open Domain says whether its queues have a wait descriptor.
func canWait(prov string) bool {
	return !slices.Contains([]string{"verbs", "efa"}, prov) && !strings.HasSuffix(prov, rxdLayer)
}

// tellsSource reports whether a provider that announces FI_SOURCE reports the sources of
// datagrams. The sockets provider reports sources only for FI_EP_RDM. Reliable endpoints are opened
// without FI_SOURCE, because the shm provider reports removed peers as sources, and the net
// provider does not report all sources.
func tellsSource(prov string) bool { return prov != socketsProvider }

// loopsBack reports whether a provider's endpoints reach themselves. A network card with the usnic
// provider cannot send to itself.
func loopsBack(prov string) bool { return prov != "usnic" }
