//go:build !race

package bulk

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var hasString = cpu.X86.HasERMS

// moveString copies n bytes with REP MOVSB.
//
//go:noescape
func moveString(dst, src *byte, n int)

// copyString copies src to dst by the string instruction. The slices "src" and "dst" must have the
// same length, which must be at least two cache lines.
func copyString(dst, src []byte) {
	ahead := int(-uintptr(unsafe.Pointer(&dst[0])) & (lineBytes - 1))
	copy(dst[:ahead], src)
	moveString(&dst[ahead], &src[ahead], len(src)-ahead)
}
