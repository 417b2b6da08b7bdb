//go:build linux && cgo

package ofi

/*
#cgo noescape gofi_region_add
#cgo nocallback gofi_region_add
#cgo noescape gofi_region_drop
#cgo nocallback gofi_region_drop
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"gobtl/fabric"
)

const (
	regionIndexBits = 20
	regionGenBits   = 32 - regionIndexBits
	maxRegions      = 1<<regionIndexBits - 1
)

// The type "regions" holds the registered memory regions from which sends can gather bytes.
type regions struct {
	all  []region // by the index in a Region; entry 0 is none
	free []uint32 // indices for reuse
}

type region struct {
	pin  runtime.Pinner
	gen  uint32
	used bool
}

// The method "take" returns the index of an unused entry for a region, and changes the generation
// number of the entry.
func (r *regions) take() (uint32, error) {
	n := len(r.free)
	if n == 0 {
		if len(r.all) == 0 {
			r.all = make([]region, 1)
		}
		if len(r.all) > maxRegions {
			return 0, fmt.Errorf("%w: %d regions", fabric.ErrAgain, maxRegions)
		}
		r.free = append(r.free, uint32(len(r.all)))
		r.all = append(r.all, region{})
		n = 1
	}
	i := r.free[n-1]
	r.free = r.free[:n-1]
	r.all[i].gen = (r.all[i].gen + 1) & (1<<regionGenBits - 1)
	return i, nil
}

// The method "release" unpins the memory of all regions, and removes all regions.
func (r *regions) release() {
	for i := range r.all {
		r.all[i].pin.Unpin()
	}
	*r = regions{}
}

// The method "gathers" reports whether the provider can send one datagram from two separate memory
// areas.
func (d *domain) gathers() bool { return d.limits.iovLimit >= 2 }

// RegisterRegion implements fabric.Domain. For empty memory, the error of RegisterRegion wraps
// ErrBadConfig.
func (d *domain) RegisterRegion(mem []byte) (fabric.Region, error) {
	switch {
	case d.c == nil:
		return 0, fabric.ErrClosed
	case !d.gathers():
		return 0, fabric.ErrNotSupported
	case len(mem) == 0:
		return 0, fmt.Errorf("%w: a region of no bytes", fabric.ErrBadConfig)
	}
	i, err := d.regions.take()
	if err != nil {
		return 0, err
	}
	r := &d.regions.all[i]
	id := fabric.Region(r.gen<<regionIndexBits | i)
	base := unsafe.Pointer(unsafe.SliceData(mem))
	// runtime.Pinner.Pin does nothing for memory outside of the Go heap.
	r.pin.Pin(base)
	var fail C.struct_gofi_fail
	if C.gofi_region_add(d.c, C.uint32_t(id), base, C.uint64_t(len(mem)), &fail) != 0 {
		r.pin.Unpin()
		d.regions.free = append(d.regions.free, i)
		return 0, d.fail(&fail)
	}
	r.used = true
	return id, nil
}

// DeregisterRegion implements fabric.Domain. The caller must wait until all sends from the region
// have completed.
func (d *domain) DeregisterRegion(id fabric.Region) error {
	if d.c == nil {
		return fabric.ErrClosed
	}
	i := uint32(id) & maxRegions
	if uint64(i) >= uint64(len(d.regions.all)) || !d.regions.all[i].used ||
		d.regions.all[i].gen != uint32(id)>>regionIndexBits {
		return d.invalid("fi_close", "unknown region")
	}
	var fail C.struct_gofi_fail
	code := C.gofi_region_drop(d.c, C.uint32_t(id), &fail)
	d.regions.all[i].used = false
	d.regions.all[i].pin.Unpin()
	d.regions.free = append(d.regions.free, i)
	if code != 0 {
		return d.fail(&fail)
	}
	return nil
}
