//go:build !linux

package layers

import (
	"errors"
	"syscall"
	"time"
)

// On systems other than Linux, no thread is pinned and CPU times are unknown.

// AllowedCPUs does nothing here.
func AllowedCPUs() []int { return nil }

// PinThread does nothing here.
func PinThread(int) error { return errors.ErrUnsupported }

// KeepOff does nothing here.
func KeepOff([]int) {}

func processCPU() time.Duration { return 0 }

// ChildAttr does nothing here.
func ChildAttr() *syscall.SysProcAttr { return nil }
