//go:build !linux

package btl

import "time"

// nap sleeps for about d.
func nap(d time.Duration) { time.Sleep(d) }
