package matching

// turned is a layout of two runs: the message begins at cut, and ends before it.
type turned struct {
	mem []byte
	cut int
}

func (t turned) Bytes() int { return len(t.mem) }

func (t turned) Run(at int) []byte {
	if behind := len(t.mem) - t.cut; at >= behind {
		return t.mem[at-behind : t.cut]
	}
	return t.mem[t.cut+at:]
}

func (t turned) Gather(to []byte, at int) {
	for len(to) > 0 {
		n := copy(to, t.Run(at))
		to, at = to[n:], at+n
	}
}

func (t turned) Scatter(from []byte, at int) {
	for len(from) > 0 {
		n := copy(t.Run(at), from)
		from, at = from[n:], at+n
	}
}

// turn gives every third operation a layout, and returns the memory for its call.
func (o *op) turn(number int) []byte {
	if number%3 != 1 || len(o.mem) == 0 {
		return o.mem
	}
	o.r.Layout = turned{o.mem, len(o.mem) / 8}
	return nil
}

// bytes are those of the message in the memory of a receive.
func (o *op) bytes() []byte {
	if o.r.Layout == nil {
		return o.mem[:o.r.Len()]
	}
	b := make([]byte, o.r.Len())
	o.r.Layout.Gather(b, 0)
	return b
}
