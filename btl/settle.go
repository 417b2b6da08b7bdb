package btl

import "gobtl/fabric"

// settleSends handles the sends that the fabric has refused, and frees the buffers that the fabric
// no longer uses.
func (m *Module) settleSends() {
	if !m.port.Settled() { // inlined: nearly always true
		m.settleSome()
	}
}

func (m *Module) settleSome() {
	refused := m.port.Refused()
	for i := range refused {
		r := &refused[i]
		m.stats.counters[CntPostErrors]++
		m.pathRefused(&r.Send, r.Err)
		m.breakOff(r.Send.Buf)
	}
	for _, b := range m.port.Done() {
		m.letGo(b)
	}
}

// letGo frees the buffer of a completed send.
func (m *Module) letGo(b fabric.Buf) {
	if n, ok := m.port.Control(b); ok {
		m.ctlOwner[n] = nil
		m.sched.SetBlocked(false) // a chunk may wait to be sent in several Part packets
		return
	}
	m.segs[b].ep.txReleased()
	f := m.segs[b].frag // set only if the fragment waits for the send completion
	m.release(segToken(b))
	m.segEnded(f)
}
