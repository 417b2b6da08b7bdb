package frag

// Chunks returns how many chunks of at most roomBytes a fragment of sizeBytes is cut into: 0 for an
// empty one. It panics if roomBytes is 0.
func Chunks(sizeBytes, roomBytes uint32) uint32 {
	n := sizeBytes / roomBytes
	if sizeBytes%roomBytes != 0 {
		n++
	}
	return n
}
