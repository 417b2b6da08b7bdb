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

// Deviations of providers from what they announce, in all versions unless one is named.
const (
	socketsProvider = "sockets"

	// The sockets provider leaves a message in its TCP connection until all of the header is
	// there. If the receive window closes within a header, its first bytes keep all memory that
	// came in with them, the window stays shut, and the connection hangs for good. So no endpoint
	// has more bytes under way than half the smallest window that systems begin with: sends
	// complete when they have been received, all but injected ones, of which there are none.
	socketsHeaderBytes   = 24
	socketsMTUBytes      = 1 << 10
	socketsTxDepth       = 31
	socketsUnderWayBytes = 32 << 10

	// shmNoRemove is the first version of the shm provider (200 is that of libfabric 2.0) in which
	// an address that takes the place of a removed one finds the other's state: a send to it
	// dereferences NULL.
	shmNoRemove = 200
	// rxdLayer ends the names of datagram providers with libfabric's own reliability.
	rxdLayer = layerMark + "ofi_rxd"

	// shmPeers is the size of that provider's table of peers.
	shmPeers = 256
)

// quirks are the workarounds that the provider needs besides smaller limits.
type quirks struct {
	// privateSends: the provider sends messages of its own by the queue of the caller's sends.
	privateSends bool
	// removeComplains: fi_av_remove removes a peer, and then says EINVAL if no endpoint has a
	// connection to it (sockets of libfabric 2).
	removeComplains bool
	// copies: the provider keeps sends for ever that a peer does not accept. So it is given copies.
	copies bool
	// keptPeers: no peer may be removed, and there is room for so many. 0: they may.
	keptPeers int
}

// flags are the quirks that the shim has to know.
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

// tamed are the limits within which a provider works. major is the number before the dot of its
// version: 117 in libfabric 1.17, 206 in 2.6.
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
		// A larger message stays the sender's until its peer has taken it: for ever, if the peer
		// has ended. From libfabric 2.0 on that is so also within one process, and from 2.5 on its
		// receiver follows a pointer that was never set. Injected messages are copied.
		l.maxMsgBytes = min(l.maxMsgBytes, l.injectBytes)
	default:
		l.quirks.copies = l.reliable && keepsUntaken(prov)
	}
	return l
}

// keepsUntaken says whether a reliable provider has what it was sent for as long as the peer does
// not take it: those over TCP of a peer that stands still, rxd of one that has ended as well.
func keepsUntaken(prov string) bool {
	core, _, _ := strings.Cut(prov, layerMark)
	return slices.Contains([]string{"net", "tcp", udpProvider}, core)
}

// unfit are providers that are not offered. sm2 is shared memory that ends a process with two
// endpoints of it, lnx links other providers together, and neither has passed the suites.
var unfit = []string{"sm2", "lnx"}

// fit says whether a provider is offered. A layer's name stands behind ";" or ":".
func fit(prov string) bool {
	return !slices.ContainsFunc(unfit, func(name string) bool {
		return prov == name || strings.HasPrefix(prov, name+layerMark) ||
			strings.HasSuffix(prov, layerMark+name) || strings.HasSuffix(prov, ":"+name)
	})
}

// canWait says whether a provider's queues have a wait descriptor. No attribute tells; Domain.Info
// has what opening the domain showed.
func canWait(prov string) bool {
	return !slices.Contains([]string{"verbs", "efa"}, prov) && !strings.HasSuffix(prov, rxdLayer)
}

// tellsSource says whether a provider's datagram endpoints tell sources if they say so. sockets
// does so for FI_EP_RDM only. Of reliable endpoints none is asked: shm tells the sources of peers
// that were removed, net does not tell all.
func tellsSource(prov string) bool { return prov != socketsProvider }

// loopsBack says whether a provider's endpoints reach themselves: usnic's NICs do not.
func loopsBack(prov string) bool { return prov != "usnic" }
