package mpi

import (
	"errors"
	"os"
	"syscall"
	"time"

	"gobtl/btl"
	"gobtl/pml"
)

// filesForPeer is the number of file descriptors that a rank needs for a connection over shared
// memory: a socket and a ring for each direction.
const filesForPeer = 4

// filesAfter is how long a rank without free file descriptors tries to connect to another rank over
// shared memory.
const filesAfter = time.Second

// limitOfFiles returns a text if this process, or its host, has fewer free file descriptors than
// the given number. It returns "" if there are enough.
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

// watchFiles gives up a rank that does not connect over shared memory soon, if this process has no
// file descriptor left for the connection. mu is held.
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
