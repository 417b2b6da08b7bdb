package launch

import (
	"fmt"
	"net"
)

// The function "inherited" always returns ErrEnvironment, because a Windows process does not
// inherit numbered file descriptors.
func inherited(fd int) (net.Conn, error) {
	return nil, fmt.Errorf("%w: PMI_FD=%d is not for Windows", ErrEnvironment, fd)
}

// checkOwn always returns an error, because on Windows the mode of a directory does not tell which
// users have access.
func checkOwn(path string) error {
	return fmt.Errorf("%w: %s: on Windows say where rank 0 shall listen: %s=HOST:PORT",
		ErrRendezvous, path, RendezvousVariable)
}
