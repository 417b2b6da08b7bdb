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

// peers are those that a domain can send to.
type peers struct {
	all    []peer            // by the index in an Addr
	free   []uint32          // indices to use again
	byName map[string]uint32 // canonical name to index: Insert is idempotent on every provider
	// kept are the indices of peers that were removed, where the provider must not be told
	// (quirks.keptPeers) or has something for them, by canonical name. One that comes again has the
	// index that it had, and what the provider has for it counts as its own.
	kept    map[string]uint32
	forgets int // at so many of them those are looked for for which the provider has nothing any more
}

const (
	// keptMost bounds the peers that were removed while the provider had something for them: each of
	// them stands still, or has ended without a word.
	keptMost = 1 << 14
	// forgetsLeast is at how many of them to look for those that may be forgotten.
	forgetsLeast = 16
)

type peer struct {
	name  string
	gen   uint32
	count int // Inserts not undone
}

func newPeers() peers {
	return peers{
		byName: make(map[string]uint32), kept: make(map[string]uint32), forgets: forgetsLeast,
	}
}

func (p *peer) addr(index uint32) fabric.Addr {
	return fabric.Addr(p.gen)<<32 | fabric.Addr(index)
}

// take returns the index of an unused peer, under a generation that it never had.
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

// renew gives an index a generation that it never had.
func (p *peers) renew(i uint32) {
	p.all[i].gen++
	if p.all[i].gen == 0 {
		p.all[i].gen = 1 // 0 marks a removed peer in the shim
	}
}

// find returns the index of an Addr; false for one that names no peer.
func (p *peers) find(a fabric.Addr) (uint32, bool) {
	i := uint32(a)
	ok := uint64(i) < uint64(len(p.all)) && p.all[i].count > 0 && p.all[i].addr(i) == a
	return i, ok
}

// Insert implements fabric.Domain. Of a name that libfabric's provider refuses the error wraps its
// *fabric.Error, and ErrBadName as well if the name may have been malformed. The shm provider of
// libfabric 2 takes 256 different names in a domain's life, removed ones included; more
// are ErrAgain.
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
	// Some providers read the longest name they know of, whatever the length of this one.
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

// roomForPeer says whether there is room for a peer that is not kept, and why not.
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

// forget tells the provider of the peers that were removed, and for which it has nothing any more.
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

// copied is how many sends the provider has that it has copies of.
func (d *domain) copied() int { return int(C.gofi_copied(d.c)) }

// refused makes the error of a name that the provider did not take. Of opaque names only the
// provider knows whether they are malformed or lead nowhere, and it does not tell which.
func (d *domain) refused(err error) error {
	bad := errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EADDRNOTAVAIL)
	if bad && d.rules.form != formSockIn && d.rules.form != formSockIn6 {
		return fmt.Errorf("%w, or one that cannot be reached: %w", fabric.ErrBadName, err)
	}
	return err
}

// Remove implements fabric.Domain. Of an Addr that names no peer it is a *fabric.Error with EINVAL.
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
