//go:build unix && !linux

package agent

import "syscall"

// attributes are those of a rank: the leader of a group, so that what it starts is signalled with
// it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
