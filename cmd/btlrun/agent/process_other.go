//go:build unix && !linux

package agent

import "syscall"

// attributes returns the process attributes of a rank. Each rank leads a process group, so that
// signals also reach the children of the rank.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
