//go:build !linux

package waiting

import "runtime"

func askNetpoller() { runtime.Gosched() }
