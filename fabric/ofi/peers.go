//go:build linux && cgo

package ofi

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"gobtl/fabric"
)

const maxPeers = 1<<31 - 1

// peers is the address vector of a domain.
type peers struct {
	all    []peer            // by the index in an Addr
	free   []uint32          // indices for reuse
	byName map[string]uint32 // canonical name to index, so that equal names give one index
	// The field "kept" maps canonical names to the indices of removed peers that are still in the
	// provider's address vector. A removed peer stays in the provider's address vector for ever if the
	// provider cannot remove peers (quirks.keptPeers), and otherwise until the pending sends to the
	// peer have completed. If a peer in the map "kept" is inserted again, the peer gets its previous
	// index, to which the pending sends to the peer belong.
	kept    map[string]uint32
	forgets int // number of kept peers at which forget is called
}

const (
	// The map "kept" of type peers has at most keptMost removed peers to which sends are pending.
	keptMost     = 1 << 14
	forgetsLeast = 16
)

type peer struct {
	name  string
	gen   uint32
	count int // number of Inserts minus Removes
}

func newPeers() peers {
	return peers{
		byName: make(map[string]uint32), kept: make(map[string]uint32), forgets: forgetsLeast,
	}
}

func (p *peer) addr(index uint32) fabric.Addr {
	return fabric.Addr(p.gen)<<32 | fabric.Addr(index)
}

// The method "take" returns the index of an unused entry for a peer, and changes the generation
// number of the entry.
func (p *peers) take() (uint32, error) {
	n := len(p.free)
	if n == 0 {
		if len(p.all) >= maxPeers {
			return 0, fmt.Errorf("%w: %d peers", fabric.ErrAgain, len(p.all))
		}
		p.free = append(p.free, uint32(len(p.all)))
		p.all = append(p.all, peer{})
		n = 1
	}
	i := p.free[n-1]
	p.free = p.free[:n-1]
	p.renew(i)
	return i, nil
}

// renew changes the generation number of the entry with the index i.
func (p *peers) renew(i uint32) {
	p.all[i].gen++
	if p.all[i].gen == 0 {
		p.all[i].gen = 1 // 0 marks a removed peer in the shim
	}
}

func (p *peers) find(a fabric.Addr) (uint32, bool) {
	i := uint32(a)
	ok := uint64(i) < uint64(len(p.all)) && p.all[i].count > 0 && p.all[i].addr(i) == a
	return i, ok
}

// Insert implements fabric.Domain. If libfabric's provider refuses a name, the error of Insert
// wraps the *fabric.Error of the provider. If the provider's error suggests that the name is
// malformed, the error of Insert wraps both the provider's *fabric.Error and ErrBadName. The shm
// provider of libfabric 2 accepts at most 256 different names, including removed names, from the
// opening of a domain to its close. After 256 names of the shm provider of libfabric 2, the error
// of Insert wraps ErrAgain.
func (d *domain) Insert(name []byte) (fabric.Addr, error) {
	if d.c == nil {
		return fabric.AddrUnknown, fabric.ErrClosed
	}
	canon, err := d.rules.check(name)
	if err != nil {
		return fabric.AddrUnknown, err
	}
	if i, ok := d.peers.byName[canon]; ok {
		d.peers.all[i].count++
		return d.peers.all[i].addr(i), nil
	}
	known := C.uint64_t(C.GOFI_NO_FI_ADDR)
	i, was := d.peers.kept[canon]
	if was {
		known = C.gofi_fi_addr(d.c, C.uint64_t(i))
		d.peers.renew(i)
	} else {
		if err := d.roomForPeer(); err != nil {
			return fabric.AddrUnknown, err
		}
		if i, err = d.peers.take(); err != nil {
			return fabric.AddrUnknown, err
		}
	}
	p := &d.peers.all[i]
	var padded [fabric.MaxNameBytes]byte
	copy(padded[:], canon)
	var fail C.struct_gofi_fail
	if C.gofi_insert(d.c, C.uint64_t(p.addr(i)), unsafe.Pointer(&padded[0]), known, &fail) != 0 {
		if !was {
			d.peers.free = append(d.peers.free, i)
		}
		return fabric.AddrUnknown, d.refused(d.fail(&fail))
	}
	p.name, p.count = canon, 1
	d.peers.byName[canon] = i
	delete(d.peers.kept, canon)
	return p.addr(i), nil
}

func (d *domain) roomForPeer() error {
	p := &d.peers
	if most := d.limits.quirks.keptPeers; most > 0 {
		if len(p.byName)+len(p.kept) >= most {
			return fmt.Errorf("%w: this version of %s cannot forget a peer, and has room for %d",
				fabric.ErrAgain, d.info.Provider, most)
		}
		return nil
	}
	if len(p.kept) >= p.forgets {
		d.forget()
	}
	if len(p.kept) >= keptMost {
		return fmt.Errorf("%w: %s has sends for %d peers that were removed, and have not taken them",
			fabric.ErrAgain, d.info.Provider, len(p.kept))
	}
	return nil
}

// A removed peer stays in the provider's address vector while sends to the peer are pending. The
// method "forget" removes each removed peer without pending sends from the provider's address
// vector.
func (d *domain) forget() {
	p := &d.peers
	for name, i := range p.kept {
		if C.gofi_forget(d.c, C.uint32_t(i)) != 0 {
			delete(p.kept, name)
			p.free = append(p.free, i)
		}
	}
	p.forgets = min(max(2*len(p.kept), forgetsLeast), keptMost)
}

// The method "copied" returns the number of copied sends that the provider has not completed.
func (d *domain) copied() int { return int(C.gofi_copied(d.c)) }

// The method "refused" makes the error that Insert returns for a name that the provider has
// refused.
func (d *domain) refused(err error) error {
	bad := errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EADDRNOTAVAIL)
	if bad && d.rules.form != formSockIn && d.rules.form != formSockIn6 {
		return fmt.Errorf("%w, or one that cannot be reached: %w", fabric.ErrBadName, err)
	}
	return err
}

// Remove implements fabric.Domain. If the Addr is not valid, Remove returns a *fabric.Error with
// the errno EINVAL.
func (d *domain) Remove(a fabric.Addr) error {
	if d.c == nil {
		return fabric.ErrClosed
	}
	i, ok := d.peers.find(a)
	if !ok {
		return d.invalid("fi_av_remove", "unknown or removed peer address")
	}
	p := &d.peers.all[i]
	p.count--
	if p.count > 0 {
		return nil
	}
	delete(d.peers.byName, p.name)
	var fail C.struct_gofi_fail
	var kept C.int
	failed := C.gofi_remove(d.c, C.uint64_t(a), &kept, &fail) != 0
	if kept != 0 {
		d.peers.kept[p.name] = i
	} else {
		d.peers.free = append(d.peers.free, i)
	}
	p.name = ""
	if failed {
		return d.fail(&fail)
	}
	return nil
}
