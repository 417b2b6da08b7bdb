package launch

import (
	"fmt"
	"net"
)

// inherited refuses: Windows has no numbered descriptors that a child gets from its launcher.
func inherited(fd int) (net.Conn, error) {
	return nil, fmt.Errorf("%w: PMI_FD=%d is not for Windows", ErrEnvironment, fd)
}

// checkOwn always returns an error, because on Windows the mode of a directory does not show its
// owner.
func checkOwn(path string) error {
	return fmt.Errorf("%w: %s: on Windows say where rank 0 shall listen: %s=HOST:PORT",
		ErrRendezvous, path, RendezvousVariable)
}
