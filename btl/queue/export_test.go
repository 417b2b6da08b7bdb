package queue

import "gobtl/btl"

// SendLimit is sendLimit, for tests.
func (q *Queue) SendLimit(peer *btl.Endpoint) error { return q.sendLimit(peer) }

// Senders is the number of peers of which something is kept.
func (q *Queue) Senders() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.from)
}

// Held is what is held of peers: endpoints that have left something, their bytes, and the places of
// those that have messages.
func (q *Queue) Held(peer string) (endpoints int, bytes int64, ready int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gone.Of(peer), q.gone.Bytes(), q.ready.Waiting()
}

// Work makes the Queue have something under way, until the returned function is called.
func (q *Queue) Work() (end func()) {
	q.work.Add(1)
	return q.work.Done
}

// Total is the number of bytes that are held of connected and of ended peers.
func (q *Queue) Total() (live, gone int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held, q.gone.Bytes()
}

// Takers is the number of Takes that wait.
func (q *Queue) Takers() (count int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, first := range q.takers {
		count++
		for t := first.next; t != first; t = t.next {
			count++
		}
	}
	return count
}

// SetHosts makes hostOf name the hosts of endpoints. It must be called before the first message.
func (q *Queue) SetHosts(hostOf func(*btl.Endpoint) string) { q.hostOf = hostOf }

// Unacked is the number of bytes of sent messages that count towards TotalBytes, and the number of
// peers to which something was sent. Only a function given to Do may call it.
func (q *Queue) Unacked() (bytes int64, peers int) { return q.unacked.bound.Counted(), len(q.to) }
