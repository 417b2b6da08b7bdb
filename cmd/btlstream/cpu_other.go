//go:build !linux

package main

import (
	"errors"
	"time"
)

// Only Linux has the system calls to pin a thread and to read the CPU time of the process.

func pinThread(int) error { return errors.ErrUnsupported }

func processCPU() time.Duration { return 0 }
