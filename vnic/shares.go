package vnic

// The type "shares" is a table with a limited number of rows, each of which belongs to a host. In a
// full table, a new row of a host with less than an equal share of the rows replaces a row of a
// host with more than an equal share.
type shares[K comparable, V interface{ owner() uint32 }] struct {
	rows map[K]V
	held map[uint32]int // rows by host
}

func (s *shares[K, V]) put(k K, v V) {
	if s.rows == nil {
		s.rows, s.held = make(map[K]V), make(map[uint32]int)
	}
	if old, known := s.rows[k]; known {
		s.release(old.owner())
	}
	s.rows[k] = v
	s.held[v.owner()]++
}

func (s *shares[K, V]) release(lid uint32) {
	if s.held[lid]--; s.held[lid] == 0 {
		delete(s.held, lid)
	}
}

// drop removes the rows of the table for which the function "keep" returns false.
func (s *shares[K, V]) drop(keep func(K, V) bool) {
	for k, v := range s.rows {
		if !keep(k, v) {
			delete(s.rows, k)
			s.release(v.owner())
		}
	}
}

// The method "room" reports whether a host is allowed to add a row to a table of at most "limit"
// rows. For a host with less than an equal share of the rows of a full table, the method "room"
// makes space by removing a row of a host with more than an equal share, if there is one.
func (s *shares[K, V]) room(lid uint32, limit int) bool {
	if len(s.rows) < limit {
		return true
	}
	hosts := len(s.held)
	if s.held[lid] == 0 {
		hosts++
	}
	share := limit / hosts
	if s.held[lid] >= share {
		return false
	}
	for k, v := range s.rows {
		if s.held[v.owner()] > share {
			delete(s.rows, k)
			s.release(v.owner())
			return true
		}
	}
	return false
}
