package mpi

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
