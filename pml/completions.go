package pml

// The type "completions" contains the ended requests whose OnDone was not called yet, and calls
// OnDone in the order in which the requests ended. While OnDone of a request is running, the type
// "completions" calls no other OnDone, because OnDone is allowed to begin and to end requests.
type completions struct {
	ended   list[Request]
	running bool // OnDone of a request is running
}

func newCompletions() completions {
	return completions{ended: list[Request]{at: func(r *Request) *links[Request] { return &r.queue }}}
}

// The method "empty" reports whether OnDone was called for all ended requests.
func (c *completions) empty() bool { return c.ended.first == nil }

// The method "add" ends a request that is in no list. A later call of the method "settle" calls
// OnDone of the request.
func (c *completions) add(r *Request) {
	r.state = over
	c.ended.add(r)
}

// The method "tell" ends a request that is in no list, and calls its OnDone. If OnDone of a request
// that ended earlier is running or was not called yet, the method "settle" calls OnDone of both
// requests in the order in which they ended.
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
