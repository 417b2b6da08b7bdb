package bulk

// Min is the least size in bytes for which Copy uses the CPU's string instruction instead of the
// builtin copy. For blocks smaller than Min, if the two CPUs share a cache, the start-up cost of
// the string instruction exceeds the time that the instruction saves.
const Min = 2 << 10

// lineBytes is the size of a cache line.
const lineBytes = 64

// Copy does the same as Go's builtin copy. The two blocks must not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < Min || !hasString {
		return copy(dst, src)
	}
	copyString(dst[:n], src[:n])
	return n
}
