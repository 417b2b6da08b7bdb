//go:build !unix && !windows

package net

import "syscall"

func setOption(uintptr, option) error { return syscall.ENOSYS }

func recvBuffer(uintptr) (int, error) { return leastBytes, nil }

func portable(errno syscall.Errno) syscall.Errno { return errno }

func isCut(error) bool { return false }

func dontFragment(int) []option { return nil }
