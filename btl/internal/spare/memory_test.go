package spare

import "testing"

// Memory is used again, up to a bound: the memory that has lain idle for longest goes first, and
// memory larger than the bound is not kept at all.
func TestMemoryIsKept(t *testing.T) {
	var m Memory
	const size = 1 << 20
	same := func(a, b []byte) bool { return &a[:1][0] == &b[:1][0] }
	first := m.Take(size)
	m.Give(first)
	second := m.Take(size - 1)
	if !same(first, second) || len(second) != size-1 || m.bytes != 0 {
		t.Errorf("other memory, of %d bytes; %d are idle", len(second), m.bytes)
	}
	m.Give(second)
	if mem := m.Take(size + 1); same(first, mem) || len(mem) != size+1 {
		t.Error("memory that is too small")
	}
	for range 2 * BytesMax / size {
		m.Give(make([]byte, size))
	}
	m.Give(make([]byte, BytesMax+1))
	if n := len(m.idle); n != BytesMax/size || m.bytes != BytesMax {
		t.Errorf("%d pieces and %d bytes are idle, want %d bytes", n, m.bytes, BytesMax)
	}
	for range m.idle {
		if same(first, m.Take(size)) {
			t.Error("the oldest is kept")
		}
	}
	m.Give(make([]byte, BytesMax))
	if len(m.idle) != 1 || m.bytes != BytesMax {
		t.Errorf("%d pieces and %d bytes are idle after the largest", len(m.idle), m.bytes)
	}
}

// The most recently used memory that is large enough is taken first.
func TestLatestIsTaken(t *testing.T) {
	var m Memory
	small, large, latest := make([]byte, 10), make([]byte, 30), make([]byte, 20)
	for _, mem := range [][]byte{large, small, latest} {
		m.Give(mem)
	}
	for i, want := range [][]byte{latest, large} {
		if got := m.Take(15); &got[0] != &want[0] {
			t.Errorf("take %d: memory of %d bytes, want %d", i, cap(got), cap(want))
		}
	}
}

// A small message does not hold memory that is much larger than itself.
func TestMuchLargerMemoryStays(t *testing.T) {
	var m Memory
	m.Give(make([]byte, 1<<20))
	if got := m.Take(5000); cap(got) > wasteFactor*5000 {
		t.Errorf("memory of %d bytes for a message of 5000 bytes", cap(got))
	}
	if got := m.Take(1 << 19); cap(got) != 1<<20 {
		t.Errorf("memory of %d bytes, want the idle memory of 1 MiB", cap(got))
	}
}
