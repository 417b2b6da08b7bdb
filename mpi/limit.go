package mpi

import (
	"errors"
	"os"
	"syscall"
)

// filesForPeer is how many files a rank needs at a time to meet another one over shared memory: a
// socket, a ring, and one more while they are taken in.
const filesForPeer = 3

// limitOfFiles says that this process, or its host, has no files left to meet a peer with. It is ""
// where there are some: a peer that is not reached has another reason, or its own process has none.
func limitOfFiles() string {
	for range filesForPeer {
		f, err := os.Open(os.DevNull)
		switch {
		case errors.Is(err, syscall.EMFILE):
			return "this process is at its limit of open files (ulimit -n)"
		case errors.Is(err, syscall.ENFILE):
			return "this host is at its limit of open files (fs.file-max)"
		case err != nil:
			return ""
		}
		defer f.Close()
	}
	return ""
}
