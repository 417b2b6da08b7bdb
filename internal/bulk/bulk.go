package bulk

// Min is the smallest size in bytes of a block for which Copy uses the CPU's string instruction
// instead of the builtin copy. For a block of less than Min bytes, the start-up cost of the string
// instruction exceeds the time that the instruction saves, if the CPUs of the writer and the reader
// share a cache.
const Min = 2 << 10

// lineBytes is the size of a cache line.
const lineBytes = 64

// Copy copies bytes from the slice "src" to the slice "dst", like Go's builtin copy. The slices
// "src" and "dst" must not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < Min || !hasString {
		return copy(dst, src)
	}
	copyString(dst[:n], src[:n])
	return n
}
