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

// The constants in this block describe how providers deviate from the properties that they report.
// If the description of a deviation gives no version, all versions of the provider have the
// deviation.
const (
	socketsProvider = "sockets"

	// libfabric's sockets provider hangs for ever if the TCP receive window closes within the header
	// of a message. To keep the window open, an endpoint of the sockets provider has at most
	// socketsUnderWayBytes in flight, which is half of the smallest initial TCP receive window among
	// operating systems.
	socketsHeaderBytes   = 24
	socketsMTUBytes      = 1 << 10
	socketsTxDepth       = 31
	socketsUnderWayBytes = 32 << 10

	// shmNoRemove is the first version of libfabric's shm provider that cannot safely remove addresses
	// (200 is the version in libfabric 2.0). From version shmNoRemove on, the shm provider confuses a
	// new address with a removed address, so that a send to the new address crashes the process.
	shmNoRemove = 200
	// A provider whose name ends in rxdLayer is a datagram provider with libfabric's reliability layer
	// rxd.
	rxdLayer = layerMark + "ofi_rxd"

	shmPeers = 256
)

// The type "quirks" describes the workarounds that a provider needs. For reduced size limits, see
// the method "tamed".
type quirks struct {
	// privateSends is true if the provider sends its own control messages through the send queue of
	// the endpoint.
	privateSends bool
	// removeComplains is true if fi_av_remove removes a peer without a connection, but wrongly returns
	// EINVAL (as in the sockets provider of libfabric 2).
	removeComplains bool
	// The field "copies" is true if the provider never completes a send to a peer that accepts no
	// data. If "copies" is true, the shim (the C part of the package) passes copies of the sends to
	// the provider.
	copies bool
	// keptPeers is 0 if the provider can remove peers. If the provider cannot remove peers, keptPeers
	// is the number of peers for which the provider's address vector has room.
	keptPeers int
}

// The method "flags" returns the quirks in the format of the shim (the C part of the package).
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

// The method "tamed" returns the limits "l", reduced to the sizes with which the provider works
// correctly. The argument "major" of the method "tamed" is the first number of the provider's
// version, which is 117 in libfabric 1.17 and 206 in libfabric 2.6.
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
		// With the shm provider, a message of more than injectBytes stays in the sender's memory until
		// the peer has received it. A peer that has ended never receives the message.
		l.maxMsgBytes = min(l.maxMsgBytes, l.injectBytes)
	default:
		l.quirks.copies = l.reliable && keepsUntaken(prov)
	}
	return l
}

// keepsUntaken reports whether a reliable provider never completes a send to a peer that accepts no
// data. Providers over TCP keep sends to a stalled peer in their queue, and the layer rxd
// (libfabric's reliability layer) keeps sends both to a stalled peer and to a peer that has ended.
func keepsUntaken(prov string) bool {
	core, _, _ := strings.Cut(prov, layerMark)
	return slices.Contains([]string{"net", "tcp", udpProvider}, core)
}

// The variable "unfit" lists the libfabric providers that GetInfo does not return, because they
// have failed the conformance tests. The provider sm2 (shared memory) crashes a process with two
// endpoints, and the provider lnx only combines several providers of libfabric.
var unfit = []string{"sm2", "lnx"}

// The function "fit" reports whether GetInfo is allowed to return a provider. A provider's name can
// contain the names of layers, each after ";" or ":".
func fit(prov string) bool {
	return !slices.ContainsFunc(unfit, func(name string) bool {
		return prov == name || strings.HasPrefix(prov, name+layerMark) ||
			strings.HasSuffix(prov, layerMark+name) || strings.HasSuffix(prov, ":"+name)
	})
}

// canWait guesses from a provider's name whether the provider's queues have a wait descriptor,
// because fi_getinfo does not report wait descriptors. In the Info of an open Domain, CanWait is
// not a guess but states whether the Domain's queues have wait descriptors.
func canWait(prov string) bool {
	return !slices.Contains([]string{"verbs", "efa"}, prov) && !strings.HasSuffix(prov, rxdLayer)
}

// tellsSource reports whether a provider that announces FI_SOURCE really reports the sources of
// datagrams. The sockets provider of libfabric reports sources only for FI_EP_RDM. Reliable
// endpoints are opened without FI_SOURCE, because some providers report sources incorrectly. For
// example, libfabric's shm provider reports removed peers as sources, and libfabric's net provider
// does not report all sources.
func tellsSource(prov string) bool { return prov != socketsProvider }

// loopsBack reports whether an endpoint of the provider can send datagrams to itself. A network
// card with the usnic provider cannot send to itself.
func loopsBack(prov string) bool { return prov != "usnic" }
