//go:build !race

package bulk

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasString says whether the CPU moves strings of bytes by the line (ERMS).
var hasString = cpu.X86.HasERMS

// moveString copies n bytes with REP MOVSB.
//
//go:noescape
func moveString(dst, src *byte, n int)

// copyString copies len(src) bytes, at least two lines, to dst, which is as long.
func copyString(dst, src []byte) {
	ahead := int(-uintptr(unsafe.Pointer(&dst[0])) & (lineBytes - 1))
	copy(dst[:ahead], src)
	moveString(&dst[ahead], &src[ahead], len(src)-ahead)
}
