package pml

// The type "completions" is the queue of the ended requests whose function OnDone was not called
// yet. OnDone is called in the order in which the requests ended. The calls of OnDone are not
// nested, although OnDone is allowed to begin and to end requests.
type completions struct {
	ended   list[Request]
	running bool // OnDone of a request is running
}

func newCompletions() completions {
	return completions{ended: list[Request]{at: func(r *Request) *links[Request] { return &r.queue }}}
}

// The method "empty" reports whether OnDone was called for all ended requests.
func (c *completions) empty() bool { return c.ended.first == nil }

// The method "add" appends a request to the queue of ended requests, so that a later call of the
// method "settle" calls its OnDone. The request must not be in any list.
func (c *completions) add(r *Request) {
	r.state = over
	c.ended.add(r)
}

// The method "tell" ends a request that must not be in any list, and calls its OnDone at once. If
// OnDone of an earlier request is still running or was not called yet, the method "tell" appends
// the request to the queue of ended requests instead.
func (c *completions) tell(r *Request) {
	if c.running || c.ended.first != nil {
		c.add(r)
	} else if r.state = idle; r.OnDone != nil {
		c.running = true
		r.OnDone(r)
		c.running = false
	}
	c.settle()
}

// The method "settle" calls OnDone of all ended requests.
func (c *completions) settle() {
	if c.running {
		return
	}
	c.running = true
	for r := c.ended.first; r != nil; r = c.ended.first {
		c.ended.remove(r)
		r.state = idle
		if r.OnDone != nil {
			r.OnDone(r)
		}
	}
	c.running = false
}
