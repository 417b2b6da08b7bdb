package share

import "gobtl/internal/fifo"

// Waiters contains endpoints that wait for a resource, and selects the endpoints that the caller
// examines next. The hosts of the endpoints take turns, so that a host with one endpoint does not
// wait until all endpoints of a different host were examined. All methods take constant time on
// average.
//
//	due   [host a: 1 2 3]  [host b: 4]   --> the next look examines 1; then a goes behind b
//	done  [host c: 5]                    --> Renew makes c due again, behind a and b
//
// A host is due if it has endpoints that were not examined since the latest change of the resource.
// A zero Waiters is empty.
type Waiters[E any] struct {
	hosts     map[*Host]*waitingHost[E]
	due, done hostQueue[E] // together, all hosts of the map "hosts"
	round     uint64       // number of changes of the resource
	renewed   bool         // the resource has changed since the latest look
	count     int          // number of endpoints
	spare     *waitingHost[E]
}

// The type "waitingHost" contains the waiting endpoints of one host.
type waitingHost[E any] struct {
	host   *Host
	eps    fifo.List[E]
	round  uint64 // value of Waiters.round for which the field "unseen" is right
	unseen int    // number of endpoints that were not examined in this round
	next   *waitingHost[E]
}

// Len returns the number of waiting endpoints.
func (w *Waiters[E]) Len() int { return w.count }

// Due reports whether there are endpoints that were not examined since the resource has changed.
func (w *Waiters[E]) Due() bool { return w.count > 0 && (w.renewed || w.due.first != nil) }

// Renew records that the resource has changed, so that all waiting endpoints must be examined
// again.
func (w *Waiters[E]) Renew() { w.renewed = true }

// Push adds an endpoint of the host h, and makes all endpoints due.
func (w *Waiters[E]) Push(h *Host, ep E) {
	of := w.hosts[h]
	if of == nil {
		if of = w.spare; of == nil {
			of = new(waitingHost[E])
		}
		w.spare = nil
		of.host = h
		if w.hosts == nil {
			w.hosts = make(map[*Host]*waitingHost[E])
		}
		w.hosts[h] = of
		w.due.push(of)
	}
	of.eps.Push(ep)
	w.count++
	w.Renew()
}

// Look examines the next endpoint. If all endpoints were examined since the latest change of the
// resource, Look examines one of them again. The function "waits", which must not call methods of
// the Waiters, reports whether an endpoint still has to wait. If "waits" returns false, Look
// removes the endpoint. If "waits" returns true, Look moves the endpoint behind the other endpoints
// of its host.
func (w *Waiters[E]) Look(waits func(E) bool) {
	if w.renewed {
		w.renewed = false
		w.round++
		w.due.join(&w.done)
	}
	of := w.due.pop()
	if of == nil {
		if of = w.done.pop(); of == nil {
			return
		}
	}
	if of.round != w.round {
		of.round, of.unseen = w.round, of.eps.Len()
	}
	ep, _ := of.eps.Pop()
	of.unseen = max(0, of.unseen-1)
	if waits(ep) {
		of.eps.Push(ep)
	} else {
		w.count--
	}
	switch {
	case of.eps.Len() == 0:
		delete(w.hosts, of.host)
		of.host, w.spare = nil, of
	case of.unseen > 0:
		w.due.push(of)
	default:
		w.done.push(of)
	}
}

// Each calls the function fn for all waiting endpoints.
func (w *Waiters[E]) Each(fn func(E)) {
	for _, q := range [...]*hostQueue[E]{&w.due, &w.done} {
		for of := q.first; of != nil; of = of.next {
			for _, ep := range of.eps.All() {
				fn(ep)
			}
		}
	}
}

// The type "hostQueue" is a linked list of hosts.
type hostQueue[E any] struct{ first, last *waitingHost[E] }

func (q *hostQueue[E]) push(of *waitingHost[E]) {
	if of.next = nil; q.first == nil {
		q.first = of
	} else {
		q.last.next = of
	}
	q.last = of
}

func (q *hostQueue[E]) pop() *waitingHost[E] {
	of := q.first
	if of != nil {
		if q.first = of.next; q.first == nil {
			q.last = nil
		}
		of.next = nil
	}
	return of
}

// The method "join" moves all hosts of the queue "other" to the end of the queue q.
func (q *hostQueue[E]) join(other *hostQueue[E]) {
	if other.first == nil {
		return
	}
	if q.first == nil {
		q.first = other.first
	} else {
		q.last.next = other.first
	}
	q.last = other.last
	*other = hostQueue[E]{}
}
