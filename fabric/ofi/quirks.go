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

// The constants describe deviations of providers from what the providers announce. A deviation
// without a version applies to all versions.
const (
	socketsProvider = "sockets"

	// The sockets provider leaves a message in its TCP connection until the whole header has
	// arrived. If the receive window closes within a header, the window never opens again, and the
	// connection hangs for good. The bytes in flight of an endpoint are therefore at most half of
	// the smallest initial TCP window of any system. Sends complete when the peer has received
	// them, and no send is injected.
	socketsHeaderBytes   = 24
	socketsMTUBytes      = 1 << 10
	socketsTxDepth       = 31
	socketsUnderWayBytes = 32 << 10

	// shmNoRemove is the first version of the shm provider with a defect after a remove (200 is the
	// version in libfabric 2.0). A new address in the place of a removed address finds the old
	// address's state, and a send to the new address dereferences NULL.
	shmNoRemove = 200
	// rxdLayer ends the names of datagram providers with libfabric's own reliability.
	rxdLayer = layerMark + "ofi_rxd"

	// shmPeers is the size of the shm provider's table of peers.
	shmPeers = 256
)

// quirks are the workarounds that the provider needs in addition to smaller limits.
type quirks struct {
	// privateSends says that the provider sends messages of its own through the queue of the
	// caller's sends.
	privateSends bool
	// removeComplains says that fi_av_remove removes a peer, but returns EINVAL if no endpoint has
	// a connection to the peer (sockets of libfabric 2).
	removeComplains bool
	// copies says that the provider keeps sends for ever that a peer does not accept. The shim then
	// passes copies to the provider.
	copies bool
	// keptPeers is the number of peers that the provider has room for, if peers must not be
	// removed. If keptPeers is 0, peers may be removed.
	keptPeers int
}

// flags are the quirks in the form that the shim needs.
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

// tamed returns the limits within which a provider works. The argument major of tamed is the number
// before the dot of the provider's version, which is 117 in libfabric 1.17 and 206 in libfabric
// 2.6.
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
		// With the shm provider a message above injectBytes stays in the sender's memory until the
		// peer has accepted the message. If the peer has ended, the message stays for ever. From
		// libfabric 2.0 on, a message above injectBytes stays in the sender's memory within one
		// process too. From libfabric 2.5 on, the receiver of such a message follows an
		// uninitialised pointer. Injected messages are copied.
		l.maxMsgBytes = min(l.maxMsgBytes, l.injectBytes)
	default:
		l.quirks.copies = l.reliable && keepsUntaken(prov)
	}
	return l
}

// keepsUntaken reports whether a reliable provider keeps sends as long as the peer does not accept
// them. Providers over TCP keep sends to a stalled peer. The layer rxd also keeps sends to a peer
// that has ended.
func keepsUntaken(prov string) bool {
	core, _, _ := strings.Cut(prov, layerMark)
	return slices.Contains([]string{"net", "tcp", udpProvider}, core)
}

// unfit are providers that are not offered, because they have failed the test suites. The provider
// sm2 (shared memory) crashes a process with two endpoints, and lnx links other providers together.
var unfit = []string{"sm2", "lnx"}

// fit reports whether a provider is offered. A layer's name follows ";" or ":".
func fit(prov string) bool {
	return !slices.ContainsFunc(unfit, func(name string) bool {
		return prov == name || strings.HasPrefix(prov, name+layerMark) ||
			strings.HasSuffix(prov, layerMark+name) || strings.HasSuffix(prov, ":"+name)
	})
}

// canWait reports whether a provider's queues have a wait descriptor. No attribute of libfabric
// tells. Domain.Info has the actual value after opening.
func canWait(prov string) bool {
	return !slices.Contains([]string{"verbs", "efa"}, prov) && !strings.HasSuffix(prov, rxdLayer)
}

// tellsSource reports whether a provider's datagram endpoints know sources if the provider
// announces so. The sockets provider knows sources only for FI_EP_RDM. Reliable endpoints are never
// asked for sources, because shm reports the sources of removed peers, and net does not report all
// sources.
func tellsSource(prov string) bool { return prov != socketsProvider }

// loopsBack reports whether a provider's endpoints reach themselves. The NICs of usnic do not.
func loopsBack(prov string) bool { return prov != "usnic" }
