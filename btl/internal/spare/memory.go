package spare

import "slices"

// BytesMax is the maximum size of all idle memory, in bytes.
const BytesMax = 4 << 20

// Memory is a pool of idle memory. A zero Memory is empty.
type Memory struct {
	idle  [][]byte
	bytes int // total size of idle
}

// Take does not use idle memory that is more than wasteFactor times as large as the requested size.
// Without this limit on the size of reused memory, many small messages could occupy much more
// memory than they need.
const wasteFactor = 2

// Take returns a slice of sizeBytes. Take uses the most recently used idle memory whose capacity is
// at least sizeBytes and at most wasteFactor times sizeBytes. If the pool contains no idle memory
// of a suitable capacity, Take allocates new memory.
func (m *Memory) Take(sizeBytes int) []byte {
	for i := len(m.idle) - 1; i >= 0; i-- {
		if mem := m.idle[i]; sizeBytes <= cap(mem) && cap(mem) <= wasteFactor*sizeBytes {
			m.idle = slices.Delete(m.idle, i, i+1)
			m.bytes -= cap(mem)
			return mem[:sizeBytes]
		}
	}
	return make([]byte, sizeBytes)
}

// Give keeps the memory "mem" for a later call of Take. If the total size of the idle memory would
// exceed BytesMax, Give drops the memory that was idle for the longest time.
func (m *Memory) Give(mem []byte) {
	if cap(mem) > BytesMax {
		return
	}
	drop := 0
	for m.bytes += cap(mem); m.bytes > BytesMax; drop++ {
		m.bytes -= cap(m.idle[drop])
	}
	m.idle = append(slices.Delete(m.idle, 0, drop), mem)
}
