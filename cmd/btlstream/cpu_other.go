//go:build !linux

package main

import (
	"errors"
	"time"
)

// Only Linux has the system calls that pin a thread and that read the CPU time of the process.

func pinThread(int) error { return errors.ErrUnsupported }

func processCPU() time.Duration { return 0 }
