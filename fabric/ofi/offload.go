//go:build linux && cgo

package ofi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
)

// The constants in this block are the largest UDP payload sizes over IPv4 and over IPv6. A message
// that the kernel splits into several datagrams must not be larger than the largest payload of one
// datagram.
const (
	runBytes4 = 65535 - 20 - 8
	runBytes6 = 65535 - 40 - 8
)

// startOffload turns on segmentation offload on the endpoint's socket. If startOffload fails, the
// endpoint works without offload, and Info.Attrs tells the reason.
func (e *endpoint) startOffload(fd int) {
	if fd < 0 {
		e.noOffload = "libfabric's socket was not found"
		return
	}
	run := runBytes4
	if e.domain.rules.form == formSockIn6 {
		run = runBytes6
	}
	var fail C.struct_gofi_fail
	name := C.CBytes(e.name)
	defer C.free(name)
	if C.gofi_offload_start(e.c, C.int(fd), C.uint32_t(run), name, &fail) != 0 {
		e.noOffload = failed(e.domain.info.Provider, &fail).Error()
	}
	var info C.struct_gofi_offload_info
	if C.gofi_offload_describe(e.c, &info); info.on == 0 {
		return
	}
	e.caps.FreeRegions, e.caps.Landing = e.caps.Gather, true
}

// The method "offload" describes the state of the endpoint's segmentation offload for display. If
// offload was not requested, the method "offload" returns an empty string.
func (e *endpoint) offload() string {
	if e.domain.info.Provider != offloadName {
		return ""
	}
	if e.noOffload != "" {
		return "off: " + e.noOffload
	}
	var info C.struct_gofi_offload_info
	C.gofi_offload_describe(e.c, &info)
	send, recv := "gso", "gro"
	if info.send == 0 {
		send = fmt.Sprintf("gso ended by: %s", strerror(int(info.send_err)))
	}
	if info.recv == 0 {
		recv = "no gro"
	}
	if info.lost != 0 {
		recv += fmt.Sprintf(", %d receives dropped", info.lost)
	}
	return send + ", " + recv
}
