// Package spare keeps the memory of large messages for later large messages.
//
//	Take --> in use --Give--> idle, the latest last --> Take
//	                            \
//	                             +--> dropped, the oldest first, above BytesMax
//
// The memory belongs to one goroutine.
package spare

import "slices"

// BytesMax is the maximum size of all idle memory, in bytes.
const BytesMax = 4 << 20

// Memory is a pool of idle memory. The zero Memory is empty.
type Memory struct {
	idle  [][]byte
	bytes int // total size of idle
}

// Take returns sizeBytes of the most recently used memory that is large enough, or of new memory.
func (m *Memory) Take(sizeBytes int) []byte {
	for i := len(m.idle) - 1; i >= 0; i-- {
		if mem := m.idle[i]; cap(mem) >= sizeBytes {
			m.idle = slices.Delete(m.idle, i, i+1)
			m.bytes -= cap(mem)
			return mem[:sizeBytes]
		}
	}
	return make([]byte, sizeBytes)
}

// Give keeps mem for a later Take. If the idle memory would exceed BytesMax, Give drops the memory
// that was unused for the longest time.
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
