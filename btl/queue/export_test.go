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
