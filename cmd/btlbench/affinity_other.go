//go:build !linux

package main

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

// Without Linux's calls nothing is pinned and CPU time is not known; the rest works.

func allowedCPUs() []int { return nil }

func pinThread(int) error { return errors.ErrUnsupported }

func keepOff([]int) {}

func osYield() { runtime.Gosched() }

func processCPU() time.Duration { return 0 }

func childAttr() *syscall.SysProcAttr { return nil }
