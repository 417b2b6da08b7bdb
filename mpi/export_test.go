package mpi

import "gobtl/pml"

// Kill has a rank of a test vanish as a process does that is killed: without a word.
func (w *World) Kill() {
	e := w.e
	close(e.quit)
	e.m.Wake()
	<-e.ended
	e.lock()
	e.broken = ErrFinalized
	e.unlock()
}

// Unflushed is how many Accumulates of this process a rank may not have carried out.
func (w *Window[T]) Unflushed(rank int) int {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	return w.w.targets[rank].begun - w.w.targets[rank].flushed
}

// LayerStats are the counters of a process's layer.
func (w *World) LayerStats() pml.Stats {
	w.e.lock()
	defer w.e.unlock()
	return w.e.l.Stats()
}

// Hold has a rank of a test stand still, as a process does that is stopped, until release is
// closed.
func (w *World) Hold(release <-chan struct{}) {
	w.e.lock()
	defer w.e.unlock()
	<-release
}

// ModuleName is the address of a rank's module.
func (w *World) ModuleName(rank int) []byte { return w.e.names[rank] }
