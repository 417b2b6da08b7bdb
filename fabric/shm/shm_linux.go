package shm

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const (
	// mtuBytes is the size of the largest datagram. A datagram of mtuBytes fits at any position of the
	// smallest ring, even if the receiver has read nearly an eighth of the ring without publishing its
	// new head.
	mtuBytes     = 96<<10 - ringAlign
	defaultDepth = 4096
	maxDepth     = 1 << 16
	domainName   = "shm"
)

// If the smallest ring is too small for a datagram of mtuBytes, the following constant is negative
// and does not compile.
const _ = uint(ringBytesMin/8*7 - 2*(mtuBytes+ringAlign) - ringAlign)

// GetInfo returns an Info if Hints.Provider is empty or selects this provider. Because the provider
// has no local addresses, Hints.Node must be empty or the name of the domain.
func (provider) GetInfo(h fabric.Hints) ([]fabric.Info, error) {
	switch h.Provider {
	case "", ProviderName, ProviderName + "/":
	default:
		return nil, nil
	}
	if h.Domain != "" && h.Domain != domainName || h.Node != "" && h.Node != domainName {
		return nil, nil
	}
	here, err := findPlace()
	if err != nil {
		return nil, fmt.Errorf("%w: shm: %w", fabric.ErrUnavailable, err)
	}
	if limit := fileLimit(); limit < headerBytes+ringBytesMin {
		return nil, fmt.Errorf("%w: shm: files may have %d bytes (RLIMIT_FSIZE), a ring has %d",
			fabric.ErrUnavailable, limit, headerBytes+ringBytesMin)
	}
	info := newInfo(here)
	info.Node = h.Node
	return []fabric.Info{info}, nil
}

func (provider) Open(info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error) {
	if info.Provider != ProviderName {
		return nil, fmt.Errorf("%w: %q is not %q", fabric.ErrNoProvider, info.Provider, ProviderName)
	}
	return openDomain(info, cfg)
}

// fileLimit returns the process's file size limit (RLIMIT_FSIZE), which also limits the size of a
// ring's memory.
func fileLimit() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

// manyPeers is the number of peers for which the attribute "memory" of the Info states the memory
// use.
const manyPeers = 256

// newInfo returns the Info of the provider. Processes whose Infos have the same Fabric can reach
// each other.
func newInfo(here place) fabric.Info {
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	return fabric.Info{
		Provider:    ProviderName,
		Version:     "1",
		Fabric:      fmt.Sprintf("%s/%016x/%d", host, uint64(here), os.Geteuid()),
		Domain:      domainName,
		AddrFormat:  "shm",
		MTUBytes:    mtuBytes,
		InjectBytes: injectBytes,
		TxDepth:     defaultDepth,
		RxDepth:     defaultDepth,
		IOVLimit:    2,
		CanWait:     true,
		Loopback:    true,
		Reliable:    true,
		Ordered:     true,
		Attrs:       attrs(ringBytesMax),
	}
}

// The function "attrs" returns attributes that state the memory use of rings with at most ringMost
// bytes each.
func attrs(ringMost int) []fabric.Attr {
	return []fabric.Attr{
		{Name: "reach", Value: "processes of this user that see the same " + memoryDir},
		{Name: "ring", Value: fmt.Sprintf("%d KiB for each pair of endpoints, beyond %d MiB at "+
			"most %d KiB, beyond %d MiB %d KiB", ringMost>>10, ringsLarge>>20, min(ringMost, ringMiddle)>>10,
			ringBudget>>20, ringBytesMin>>10)},
		{Name: "memory", Value: fmt.Sprintf("%d MiB for rings to %d peers, at most %d MiB for all, "+
			"%d MiB for those from peers, who make them; used as far as datagrams have filled them",
			ringsBytes(ringMost, manyPeers)>>20, manyPeers, ringsBytes(ringMost, linksMax)>>20,
			(takenBudget+linksMax*ringBytesMin)>>20)},
		{Name: "links", Value: fmt.Sprintf("%d of a domain each way, %d of them from one process, "+
			"from peers no more than half as many as this one may have descriptors; "+
			"sends to a peer that takes no more are lost until it says so, then refused",
			linksMax, linksPerProcess)},
	}
}

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: shm: "+format, append([]any{fabric.ErrBadConfig}, args...)...)
}
