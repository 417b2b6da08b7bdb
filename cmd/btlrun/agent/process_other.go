//go:build unix && !linux

package agent

import "syscall"

// attributes returns the process attributes of a rank. A rank leads a process group, so that
// signals also reach the processes that it starts.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
