package bulk

// Min is the size in bytes from which on Copy uses the string instruction instead of the builtin
// copy. For smaller blocks, if the CPUs share a cache, the start-up of the instruction takes longer
// than the instruction saves.
const Min = 2 << 10

// lineBytes is the size of a cache line. Copy first advances the destination to the beginning of a
// line.
const lineBytes = 64

// Copy does the same as the builtin copy, for blocks that do not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < Min || !hasString {
		return copy(dst, src)
	}
	copyString(dst[:n], src[:n])
	return n
}
