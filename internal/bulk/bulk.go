package bulk

// Min is the least size in bytes for which Copy uses the string instruction instead of the
// builtin copy. For smaller blocks, if the CPUs share a cache, starting the string instruction
// takes longer than it saves.
const Min = 2 << 10

// lineBytes is the size of a cache line.
const lineBytes = 64

// Copy does the same as Go's builtin copy, for blocks that do not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < Min || !hasString {
		return copy(dst, src)
	}
	copyString(dst[:n], src[:n])
	return n
}
