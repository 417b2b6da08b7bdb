//go:build !linux

package btl

import "testing"

func threadNanoseconds(b *testing.B) int64 {
	b.Skip("no CPU time of a thread on this system")
	return 0
}
