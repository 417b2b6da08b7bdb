package mpi

import (
	"errors"
	"os"
	"syscall"
	"time"

	"gobtl/btl"
	"gobtl/pml"
)

// filesForPeer is the number of file descriptors that a rank needs for one shared-memory connection
// to a rank. In each of its two directions, a shared-memory connection has a socket and a ring,
// which have one file descriptor each.
const filesForPeer = 4

// filesAfter is the time for which a rank without free file descriptors tries to open a
// shared-memory connection.
const filesAfter = time.Second

// limitOfFiles tests whether this process can open the given number of files in addition to its
// open files. If a limit of the process or the host does not allow the given number of further open
// files, limitOfFiles returns a text that names the limit, and otherwise an empty string.
func limitOfFiles(files int) string {
	for range files {
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

// If the shared-memory connection to a rank cannot be established within filesAfter because there
// are no free file descriptors, watchFiles records the rank as dead. The caller must hold mu.
func watchFiles(e *engine, rank int, p *pml.Peer) {
	if e.m.Info().Provider != memoryProvider || p.Endpoint().Connected() {
		return
	}
	later(filesAfter, func() {
		e.lock()
		defer e.unlock()
		if e.broken == nil && p.Err() == nil && !p.Endpoint().Connected() &&
			limitOfFiles(filesForPeer) != "" {
			e.bury(rank, btl.ErrUnreachable)
		}
	})
}
