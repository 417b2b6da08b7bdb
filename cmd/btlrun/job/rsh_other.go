//go:build unix && !linux

package job

import "syscall"

// remoteShell are the attributes of a remote shell: out of the terminal's group, whose signals
// btlrun forwards itself.
func remoteShell() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
