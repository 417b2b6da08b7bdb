//go:build !linux

package runner

import "time"

// nap sleeps for about d.
func nap(d time.Duration) { time.Sleep(d) }

type napper struct{}

func (*napper) nap(d time.Duration) { time.Sleep(d) }

func (*napper) close() {}
