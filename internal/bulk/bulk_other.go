//go:build !amd64

package bulk

const hasString = false

func copyString(dst, src []byte) { copy(dst, src) }
