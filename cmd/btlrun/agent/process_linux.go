package agent

import "syscall"

// attributes returns the process attributes of a rank. A rank leads a process group, so that
// signals also reach the processes that it starts. The kernel kills the rank when its agent dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
