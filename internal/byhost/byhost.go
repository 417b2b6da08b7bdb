package byhost

import "gobtl/internal/list"

// Turns contains the waiting members of all hosts. A zero Turns is empty.
type Turns[T any] struct {
	hosts   map[string]*host[T]
	order   list.List[*host[T]] // hosts with waiting members; the first has the next turn
	waiting int                 // number of waiting members
	spare   *host[T]            // unused memory for the next host, or nil
}

// The type "host" contains the waiting members of one host. A host is known while it has members.
type host[T any] struct {
	name    string
	members int                   // number of members, waiting or not
	waiting list.List[*Member[T]] // the first has the next turn of the host
	at      list.Node[*host[T]]   // in Turns.order
}

// Member is a participant of Turns.
type Member[T any] struct {
	What T // what the member stands for; not used by this package
	of   *host[T]
	at   list.Node[*Member[T]] // in host.waiting
}

// Enter makes m a member of the named host. The member m does not wait yet.
func (t *Turns[T]) Enter(m *Member[T], name string) {
	h := t.hosts[name]
	if h == nil {
		if h = t.spare; h == nil {
			h = new(host[T])
		}
		t.spare = nil
		h.name = name
		if t.hosts == nil {
			t.hosts = make(map[string]*host[T])
		}
		t.hosts[name] = h
	}
	h.members++
	m.of = h
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
	if m.at.Listed() {
		return
	}
	m.of.waiting.PushBack(&m.at, m)
	t.waiting++
	if !m.of.at.Listed() {
		t.order.PushBack(&m.of.at, m.of)
	}
}

// First returns the member with the next turn, or nil if no member waits.
func (t *Turns[T]) First() *Member[T] {
	h := t.order.First()
	if h == nil {
		return nil
	}
	return h.waiting.First()
}

// FirstOf returns the waiting member of the host of m that has the next turn of this host, or nil
// if no member of this host waits. The member m need not wait.
func (t *Turns[T]) FirstOf(m *Member[T]) *Member[T] { return m.of.waiting.First() }

// Done ends a turn of a waiting member, which may be a member other than the one that First
// returns. The host of m goes behind all other hosts. If the argument "more" of Done is true, m
// goes behind the other waiting members of its host, and otherwise m stops waiting.
func (t *Turns[T]) Done(m *Member[T], more bool) {
	h := m.of
	t.Remove(m)
	if more {
		t.Wait(m)
	}
	if h.at.Listed() {
		h.at.Remove()
		t.order.PushBack(&h.at, h)
	}
}

// Remove makes m stop waiting, without a turn. If m does not wait, Remove does nothing.
func (t *Turns[T]) Remove(m *Member[T]) {
	if !m.at.Listed() {
		return
	}
	m.at.Remove()
	t.waiting--
	if m.of.waiting.First() == nil {
		m.of.at.Remove()
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
