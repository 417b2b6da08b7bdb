package mpi

import (
	"errors"
	"os"
	"syscall"
	"time"

	"gobtl/btl"
	"gobtl/pml"
)

// filesForPeer is how many files a rank needs to meet another one over shared memory: a socket and
// a ring for each direction.
const filesForPeer = 4

// filesAfter is for how long a rank that has no file left tries to meet another one over shared
// memory.
const filesAfter = time.Second

// limitOfFiles says that this process, or its host, has fewer files left than a number. It is ""
// where there are as many.
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

// watchFiles gives up a rank that is not met over shared memory soon, if this process has no file
// left for that. mu is held.
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
