package runner

import "gobtl/btl"

// The type "handshakes" contains the calls of Connect and Dial that wait until the handshake of an
// endpoint has ended. Only the goroutine that owns the module may use the type "handshakes".
type handshakes struct {
	waiting map[*btl.Endpoint][]*call
}

// The method "begin" connects the endpoint of a call of Connect or Dial. The result "pending" of
// the method "begin" reports whether the call waits for the end of the handshake.
func (h *handshakes) begin(m *btl.Module, c *call) (pending bool, err error) {
	ep, err := endpointOf(m, c)
	if err != nil {
		return false, err
	}
	if *c.found = ep; ep.Connected() {
		return false, nil
	}
	h.waiting[ep] = append(h.waiting[ep], c)
	return true, nil
}

// The function "endpointOf" returns the endpoint for a call of Connect or Dial, and makes the
// endpoint if there is none.
func endpointOf(m *btl.Module, c *call) (*btl.Endpoint, error) {
	if c.kind == callDial {
		return m.Dial(m.Now(), string(c.name))
	}
	return m.Connect(m.Now(), c.name)
}

// The method "ended" ends the calls that wait for the given endpoint. The argument err of the
// method "ended" is the error of the endpoint's event, or nil if the event has no error.
func (h *handshakes) ended(ep *btl.Endpoint, err error) {
	waiting, ok := h.waiting[ep]
	if !ok {
		return
	}
	if err == nil && !ep.Connected() {
		err = ep.Err()
	}
	delete(h.waiting, ep)
	for _, c := range waiting {
		c.end(err)
	}
}

// The method "clear" forgets all calls.
func (h *handshakes) clear() { clear(h.waiting) }
