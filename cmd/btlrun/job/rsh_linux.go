package job

import "syscall"

// remoteShell returns the process attributes of a remote shell. The remote shell has its own
// process group, so that only btlrun receives the signals of the terminal. The kernel kills the
// shell when btlrun dies.
func remoteShell() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
