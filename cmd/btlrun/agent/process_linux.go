package agent

import "syscall"

// attributes returns the process attributes of a rank. Each rank leads a process group, so that
// signals also reach the children of the rank. The kernel kills the rank when its agent dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
