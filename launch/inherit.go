//go:build !windows

package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// The function "inherited" returns a connection over the socket with the descriptor "fd", which
// this process has inherited from the launcher. After a call of the function "inherited", child
// processes of this process do not inherit the socket.
func inherited(fd int) (net.Conn, error) {
	twin, err := syscall.Dup(fd)
	if err != nil {
		return nil, fmt.Errorf("%w: PMI_FD=%d: %w", ErrEnvironment, fd, err)
	}
	file := os.NewFile(uintptr(twin), "PMI_FD")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("%w: PMI_FD=%d is no socket: %w", ErrEnvironment, fd, err)
	}
	if err := syscall.Close(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: PMI_FD=%d: %w", ErrEnvironment, fd, err), conn.Close())
	}
	return conn, nil
}

// checkOwn returns an error unless the given path is a directory to which only this user has
// access.
func checkOwn(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRendezvous, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm()&0o077 != 0 || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s is no directory of this user alone", ErrRendezvous, path)
	}
	return nil
}
