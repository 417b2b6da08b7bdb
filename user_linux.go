package gobtl

import (
	"net"
	"os"
	"syscall"
)

func userID() int { return os.Geteuid() }

// sameUser reports whether the other end of a Unix socket is a process of the same user.
func sameUser(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	same := false
	err = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		same = err == nil && int(cred.Uid) == userID()
	})
	return err == nil && same
}
