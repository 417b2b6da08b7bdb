//go:build !linux

package main

import "errors"

// ringMemory allocates the memory of a ring.
func ringMemory(bytes int, huge bool) ([]byte, error) {
	if huge {
		return nil, errors.New("--huge-pages is for Linux alone")
	}
	return make([]byte, bytes), nil
}

// memoryLimits returns no limits, because each system has other ways to read them.
func memoryLimits(string) []memoryLimit { return nil }
