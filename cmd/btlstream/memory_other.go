//go:build !linux

package main

// ringMemory allocates the memory of a ring.
func ringMemory(bytes int) ([]byte, error) { return make([]byte, bytes), nil }
