//go:build !amd64 || race

package bulk

const hasString = false

func copyString(dst, src []byte) { copy(dst, src) }
