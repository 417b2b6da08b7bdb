//go:build !linux

package stream

import "runtime"

// yield lets another goroutine run: a reader, say.
func yield() { runtime.Gosched() }
