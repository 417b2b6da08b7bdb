package bulk

// Min is the size in bytes from which on Copy is more than copy: below it the string instruction
// takes longer to begin than it saves where the CPUs share a cache.
const Min = 2 << 10

// lineBytes is a cache line. The destination is brought to the beginning of one first.
const lineBytes = 64

// Copy is copy for blocks that do not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < Min || !hasString {
		return copy(dst, src)
	}
	copyString(dst[:n], src[:n])
	return n
}
