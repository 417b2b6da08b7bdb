//go:build !linux

package main

import (
	"errors"
	"time"
)

// Without Linux's calls nothing is pinned and CPU time is not known; the rest works.

func pinThread(int) error { return errors.ErrUnsupported }

func processCPU() time.Duration { return 0 }
