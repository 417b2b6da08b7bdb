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

// The constants below describe deviations of providers from what the providers report. A
// deviation without a version number applies to all versions.
const (
	socketsProvider = "sockets"

	// The sockets provider hangs for ever if the TCP receive window closes within the
	// header of a message. An endpoint of the sockets provider has at most half of the
	// smallest initial TCP window of any system in flight.
	socketsHeaderBytes   = 24
	socketsMTUBytes      = 1 << 10
	socketsTxDepth       = 31
	socketsUnderWayBytes = 32 << 10

	// shmNoRemove is the first version of the shm provider with a defect in the removal of
	// addresses (200 is the version in libfabric 2.0). With this defect, a new address finds the
	// state of a removed address, and a send to the new address crashes.
	shmNoRemove = 200
	// rxdLayer is the end of the names of datagram providers with libfabric's own reliability
	// layer.
	rxdLayer = layerMark + "ofi_rxd"

	shmPeers = 256
)

// quirks are the workarounds that a provider needs in addition to limits on its sizes.
type quirks struct {
	// privateSends says that the provider sends messages of its own through the queue of the
	// caller's sends.
	privateSends bool
	// removeComplains says that fi_av_remove returns EINVAL for a peer without a connection,
	// although it removes the peer (sockets provider of libfabric 2).
	removeComplains bool
	// copies says that the provider keeps sends for ever if the peer does not accept them. If
	// copies is true, the shim (the C part of the package) passes copies of the sends to the
	// provider.
	copies bool
	// keptPeers is the size of the provider's table of peers if peers must not be removed. If
	// keptPeers is 0, peers may be removed.
	keptPeers int
}

// flags returns the quirks in the form that the shim (the C part of the package) needs.
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

// tamed returns the size limits within which a provider works correctly. The argument major of
// tamed is the number before the dot of the provider's version, which is 117 in libfabric 1.17
// and 206 in libfabric 2.6.
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

// keepsUntaken reports whether a reliable provider keeps sends until the peer accepts them.
// Providers over TCP keep sends to a stalled peer, and the layer rxd also keeps sends to a peer
// that has ended.
func keepsUntaken(prov string) bool {
	core, _, _ := strings.Cut(prov, layerMark)
	return slices.Contains([]string{"net", "tcp", udpProvider}, core)
}

// unfit lists providers that are not offered, because they have failed the conformance tests. The
// provider sm2 (shared memory) crashes a process with two endpoints, and lnx links other
// providers together.
var unfit = []string{"sm2", "lnx"}

// fit reports whether a provider is offered. The name of a layer follows ";" or ":".
func fit(prov string) bool {
	return !slices.ContainsFunc(unfit, func(name string) bool {
		return prov == name || strings.HasPrefix(prov, name+layerMark) ||
			strings.HasSuffix(prov, layerMark+name) || strings.HasSuffix(prov, ":"+name)
	})
}

// canWait reports whether a provider's queues have a wait descriptor. libfabric has no attribute
// for this property. After a domain is opened, Domain.Info says whether its queues have a wait
// descriptor.
func canWait(prov string) bool {
	return !slices.Contains([]string{"verbs", "efa"}, prov) && !strings.HasSuffix(prov, rxdLayer)
}

// tellsSource reports whether a provider that announces FI_SOURCE reports the sources of
// datagrams. The sockets provider reports sources only for FI_EP_RDM. Reliable endpoints are
// never asked for sources, because shm reports removed peers as sources, and net does not report
// all sources.
func tellsSource(prov string) bool { return prov != socketsProvider }

// loopsBack reports whether a provider's endpoints reach themselves. The NICs of usnic cannot send
// to themselves.
func loopsBack(prov string) bool { return prov != "usnic" }
