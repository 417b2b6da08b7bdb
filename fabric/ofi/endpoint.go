//go:build linux && cgo

package ofi

/*
#cgo noescape gofi_post
#cgo nocallback gofi_post
#cgo noescape gofi_recv
#cgo nocallback gofi_recv
#cgo noescape gofi_poll
#cgo nocallback gofi_poll
#cgo noescape gofi_offload_land
#cgo nocallback gofi_offload_land
#include "shim.h"
*/
import "C"

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"gobtl/fabric"
)

// The shim (the C part of the package) reads and writes slices of Send and Completion directly. The
// expressions in this block compile only if Send and Completion have the same layout in Go and in
// C, because an array of length 1 has only the index 0.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(fabric.Send{})-C.sizeof_struct_gofi_send]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Send{}.To)-unsafe.Offsetof(C.struct_gofi_send{}.to)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Send{}.RegionOff)-
		unsafe.Offsetof(C.struct_gofi_send{}.region_off)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Send{}.Buf)-unsafe.Offsetof(C.struct_gofi_send{}.buf)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Send{}.Len)-unsafe.Offsetof(C.struct_gofi_send{}.len)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Send{}.Region)-
		unsafe.Offsetof(C.struct_gofi_send{}.region)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Send{}.RegionLen)-
		unsafe.Offsetof(C.struct_gofi_send{}.region_len)]

	_ = [1]struct{}{}[unsafe.Sizeof(fabric.Completion{})-C.sizeof_struct_gofi_completion]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Completion{}.From)-
		unsafe.Offsetof(C.struct_gofi_completion{}.from)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Completion{}.Buf)-
		unsafe.Offsetof(C.struct_gofi_completion{}.buf)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Completion{}.Len)-
		unsafe.Offsetof(C.struct_gofi_completion{}.len)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Completion{}.Errno)-
		unsafe.Offsetof(C.struct_gofi_completion{}.err)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Completion{}.Op)-
		unsafe.Offsetof(C.struct_gofi_completion{}.op)]

	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Completion{}.Landed)-
		unsafe.Offsetof(C.struct_gofi_completion{}.landed)]
	_ = [1]struct{}{}[unsafe.Offsetof(fabric.Completion{}.LandedOff)-
		unsafe.Offsetof(C.struct_gofi_completion{}.landed_off)]

	_ = [1]struct{}{}[unsafe.Sizeof(fabric.Buf(0))-unsafe.Sizeof(C.uint32_t(0))]
	_ = [1]struct{}{}[uint(fabric.OpSend)-C.GOFI_OP_SEND]
	_ = [1]struct{}{}[uint(fabric.OpRecv)-C.GOFI_OP_RECV]
	_ = [1]struct{}{}[fabric.MaxNameBytes-C.GOFI_NAME_MAX]
	_ = [1]struct{}{}[codeBase-C.GOFI_CODE_BASE]
	_ = [1]struct{}{}[len(refusals)-(C.GOFI_CODE_END-C.GOFI_CODE_BASE)]
	_ = [1]struct{}{}[len(calls)-C.GOFI_CALL_END]
)

// The type "endpoint" implements fabric.Endpoint.
type endpoint struct {
	c      *C.struct_gofi_ep // nil after Close
	domain *domain
	caps   fabric.Caps
	name   []byte
	waitFd int // -1: none
	// noOffload is the reason why the requested segmentation offload was not started, or an empty
	// string.
	noOffload string
	landing   runtime.Pinner
}

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Lander   = (*endpoint)(nil)
)

func (e *endpoint) Caps() fabric.Caps { return e.caps }

func (e *endpoint) Name() []byte { return slices.Clone(e.name) }

// The function "batch" limits the length of a slice to the range of a C int.
func batch(n int) C.int { return C.int(min(n, math.MaxInt32)) }

// A batch call of the shim (the C part of the package) returns a count and an error code in one
// number. The method "result" splits the number that a batch call has returned into the count and
// an error.
func (e *endpoint) result(r int64) (int, error) {
	code := resultCode(r)
	switch code {
	case 0:
		return resultCount(r), nil
	case C.GOFI_AGAIN:
		return resultCount(r), fabric.ErrAgain
	}
	return resultCount(r), newError(e.domain.info.Provider, resultCall(r), code, strerror)
}

// Post implements fabric.Endpoint.
func (e *endpoint) Post(sends []fabric.Send) (int, error) {
	if e.c == nil {
		return 0, fabric.ErrClosed
	}
	if len(sends) == 0 {
		return 0, nil
	}
	p := (*C.struct_gofi_send)(unsafe.Pointer(unsafe.SliceData(sends)))
	r := int64(C.gofi_post(e.c, p, batch(len(sends))))
	if r>>codeShift == 0 {
		return int(r), nil
	}
	return e.result(r)
}

// Poll implements fabric.Endpoint.
func (e *endpoint) Poll(out []fabric.Completion) (int, error) {
	if e.c == nil {
		return 0, fabric.ErrClosed
	}
	if len(out) == 0 {
		return 0, nil
	}
	p := (*C.struct_gofi_completion)(unsafe.Pointer(unsafe.SliceData(out)))
	r := int64(C.gofi_poll(e.c, p, batch(len(out))))
	if r>>codeShift == 0 {
		return int(r), nil
	}
	return e.result(r)
}

// Recv implements fabric.Endpoint.
func (e *endpoint) Recv(bufs []fabric.Buf) (int, error) {
	if e.c == nil {
		return 0, fabric.ErrClosed
	}
	if len(bufs) == 0 {
		return 0, nil
	}
	p := (*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(bufs)))
	r := int64(C.gofi_recv(e.c, p, batch(len(bufs))))
	if r>>codeShift == 0 {
		return int(r), nil
	}
	return e.result(r)
}

// Land implements fabric.Lander. Land pins the direct-receive memory, because the shim (the C part
// of the package) keeps the address of this memory.
func (e *endpoint) Land(mem []byte, headBytes int) bool {
	if e.c == nil || !e.caps.Landing {
		return false
	}
	e.landing.Unpin()
	if len(mem) == 0 {
		C.gofi_offload_land(e.c, nil, 0, 0)
		return true
	}
	base := unsafe.Pointer(unsafe.SliceData(mem))
	e.landing.Pin(base)
	C.gofi_offload_land(e.c, base, C.uint64_t(len(mem)),
		C.uint32_t(min(max(headBytes, 0), math.MaxUint32)))
	return true
}

// The method "progress" calls the provider so that the provider makes progress, but fetches no
// completions. Only tests in which one thread plays the roles of several processes call the method
// "progress".
func (e *endpoint) progress() { C.gofi_progress(e.c) }

// Close implements fabric.Endpoint. Close releases all resources even if it returns an error. A
// second Close does nothing.
func (e *endpoint) Close() error {
	if e.c == nil {
		return nil
	}
	d := e.domain
	if e.waitFd >= 0 {
		d.bell.unwatch(e.waitFd)
	}
	var fail C.struct_gofi_fail
	guard(func() { C.gofi_ep_close(e.c, &fail) })
	d.forgetName(e.name)
	e.c = nil
	e.landing.Unpin()
	if i := slices.Index(d.endpoints, e); i >= 0 {
		d.endpoints = slices.Delete(d.endpoints, i, i+1)
	}
	if fail.code != 0 {
		return d.fail(&fail)
	}
	return nil
}

// shmFolder is the directory in which the shm provider has a file for each endpoint. The file name
// is the endpoint's name without the prefix shmMark.
const (
	shmFolder = "/dev/shm"
	shmMark   = "fi_shm://"
)

// forgetName removes the file of an endpoint of the shm provider. A peer that has already mapped
// the file can go on using the mapped memory.
func (d *domain) forgetName(name []byte) {
	file, ok := bytes.CutPrefix(name, []byte(shmMark))
	file = bytes.TrimRight(file, "\x00")
	if d.info.Provider != family+"/"+shmProvider || !ok || len(file) == 0 ||
		bytes.IndexByte(file, '/') >= 0 {
		return
	}
	_ = os.Remove(filepath.Join(shmFolder, string(file))) // there may be no file
}
