package byhost

// Turns contains the waiting members of all hosts. A zero Turns is empty.
type Turns[T any] struct {
	hosts   map[string]*host[T]
	order   list[*host[T]] // hosts with waiting members; the first has the next turn
	waiting int            // number of waiting members
	spare   *host[T]       // unused memory for the next host, or nil
}

// The type "host" contains the waiting members of one host. A host is known while it has members.
type host[T any] struct {
	name    string
	members int              // number of members, waiting or not
	waiting list[*Member[T]] // the first has the next turn of the host
	at      node[*host[T]]   // in Turns.order
}

// Member is a participant of Turns.
type Member[T any] struct {
	What T // what the member stands for; not used by this package
	of   *host[T]
	at   node[*Member[T]] // in host.waiting
}

// Enter makes m a member of the named host. The member m does not wait yet.
func (t *Turns[T]) Enter(m *Member[T], name string) {
	h := t.hosts[name]
	if h == nil {
		if h = t.spare; h == nil {
			h = new(host[T])
			h.at.of = h
		}
		t.spare = nil
		h.name = name
		if t.hosts == nil {
			t.hosts = make(map[string]*host[T])
		}
		t.hosts[name] = h
	}
	h.members++
	m.of, m.at.of = h, m
}

// Leave ends a membership. If m waits, it stops waiting.
func (t *Turns[T]) Leave(m *Member[T]) {
	h := m.of
	t.Remove(m)
	m.of = nil
	if h.members--; h.members == 0 {
		delete(t.hosts, h.name)
		h.name = ""
		t.spare = h
	}
}

// Wait adds a member behind the waiting members of its host. If m waits already, Wait does nothing.
func (t *Turns[T]) Wait(m *Member[T]) {
	if m.at.listed {
		return
	}
	m.of.waiting.add(&m.at)
	t.waiting++
	if !m.of.at.listed {
		t.order.add(&m.of.at)
	}
}

// First returns the member with the next turn, or nil if no member waits.
func (t *Turns[T]) First() *Member[T] {
	if t.order.first == nil {
		return nil
	}
	return t.order.first.of.waiting.first.of
}

// Done ends a turn of a waiting member, which need not be the member of First. The host of m goes
// behind all other hosts. If the argument "more" of Done is true, m goes behind the other waiting
// members of its host, and otherwise m stops waiting.
func (t *Turns[T]) Done(m *Member[T], more bool) {
	h := m.of
	t.Remove(m)
	if more {
		t.Wait(m)
	}
	if h.at.listed {
		t.order.remove(&h.at)
		t.order.add(&h.at)
	}
}

// Remove makes m stop waiting, without a turn. If m does not wait, Remove does nothing.
func (t *Turns[T]) Remove(m *Member[T]) {
	if !m.at.listed {
		return
	}
	m.of.waiting.remove(&m.at)
	t.waiting--
	if m.of.waiting.first == nil {
		t.order.remove(&m.of.at)
	}
}

// Waiting returns the number of waiting members.
func (t *Turns[T]) Waiting() int { return t.waiting }

// Members returns the number of members of a host, whether or not they wait.
func (t *Turns[T]) Members(name string) int {
	if h := t.hosts[name]; h != nil {
		return h.members
	}
	return 0
}
