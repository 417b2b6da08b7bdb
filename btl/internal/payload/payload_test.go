package payload

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/fabric"
)

// domain is a fabric.Domain that only registers memory.
type domain struct {
	fabric.Domain
	mem  map[fabric.Region][]byte
	last fabric.Region
	err  error
}

func (d *domain) RegisterRegion(mem []byte) (fabric.Region, error) {
	if d.err != nil {
		return 0, d.err
	}
	d.last++
	d.mem[d.last] = mem
	return d.last, nil
}

func (d *domain) DeregisterRegion(r fabric.Region) error {
	if d.mem[r] == nil {
		return errors.New("not registered")
	}
	delete(d.mem, r)
	return nil
}

func open(registers bool) (*Memory, *domain) {
	d := &domain{mem: map[fabric.Region][]byte{}}
	m := new(Memory)
	m.Init(d, &fabric.Caps{Gather: true, FreeRegions: registers})
	return m, d
}

func filled(size int, first byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// packets sends the payload in packets of up to most bytes, and returns what arrives and how many
// of the bytes were gathered.
func packets(t *testing.T, d *domain, p *Payload, size, most int) (got []byte, gathered int) {
	t.Helper()
	for from := 0; from < size; {
		packet := make([]byte, min(most, size-from))
		at, n := p.Load(packet, uint32(from))
		if n > 0 {
			if int(at)+int(n) != from+len(packet) {
				t.Fatalf("bytes %d to %d are gathered for the packet of %d to %d", at, int(at)+int(n), from,
					from+len(packet))
			}
			region, off := p.Source(at)
			from := d.mem[region][off:][:n]
			if !bytes.Equal(from, p.Gathered(at, n)) {
				t.Fatalf("the region has other bytes at %d than the payload at %d", off, at)
			}
			copy(packet[len(packet)-int(n):], from)
			gathered += int(n)
		}
		got = append(got, packet...)
		from += len(packet)
	}
	return got, gathered
}

// Every byte of a payload in pieces arrives, copied or gathered, whatever the sizes of pieces and
// packets.
func TestPiecesArrive(t *testing.T) {
	for _, sizes := range [][]int{
		{5000}, {10, 5000}, {5000, 10}, {0, 3000, 0, 7, 9000, 2}, {1, 1, 1, 1, 1, 1, 1, 5000},
	} {
		for _, most := range []int{700, 1400, 60000} {
			for _, registers := range []bool{false, true} {
				m, d := open(registers)
				var pieces [][]byte
				var want []byte
				for i, n := range sizes {
					pieces = append(pieces, filled(n, byte(17*i)))
					want = append(want, pieces[i]...)
				}
				var p Payload
				m.Scatter(&p, pieces)
				if got := m.Gather(&p, true); got != registers {
					t.Errorf("sizes %v are gathered: %v", sizes, got)
				}
				got, gathered := packets(t, d, &p, len(want), most)
				if !bytes.Equal(got, want) || most < 60000 && registers != (gathered > 0) {
					t.Errorf("sizes %v in packets of %d: %d bytes gathered, equal: %v", sizes, most, gathered,
						bytes.Equal(got, want))
				}
				m.Drop(&p)
				m.Join(&p)
				if len(d.mem) != 0 || m.Own() != 0 || m.Check(0) != nil {
					t.Errorf("%d registrations are left, %d counted", len(d.mem), m.Own())
				}
			}
		}
	}
}

// Memory that the caller has registered is gathered from there, and stays registered.
func TestFindRegistered(t *testing.T) {
	m, d := open(false)
	mem := filled(10000, 1)
	r, err := m.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	p := Payload{Bytes: mem[100:9000]}
	m.Find(&p)
	if !m.Gather(&p, true) || p.Registered() {
		t.Errorf("not gathered, or registered only for the payload: %v", p.Registered())
	}
	got, gathered := packets(t, d, &p, len(p.Bytes), 1400)
	if !bytes.Equal(got, p.Bytes) || gathered != len(p.Bytes) {
		t.Errorf("%d of %d bytes are gathered", gathered, len(p.Bytes))
	}
	m.Drop(&p)
	if len(d.mem) != 1 {
		t.Errorf("%d registrations are left", len(d.mem))
	}
	r.Close()
}

// Memory that the fabric cannot register is copied. Of a payload of one packet only the last piece
// is gathered.
func TestGatherRefused(t *testing.T) {
	m, d := open(true)
	d.err = errors.New("no")
	p := Payload{Bytes: filled(5000, 1)}
	if m.Gather(&p, true) || p.Registered() || m.Own() != 0 {
		t.Error("memory is gathered that cannot be registered")
	}
	d.err = nil
	var v Payload
	m.Scatter(&v, [][]byte{filled(5000, 1), filled(10, 2)})
	if m.Gather(&v, false) {
		t.Error("a piece before the last one is gathered in a single packet")
	}
}

// After Close nothing is told to the fabric, and the count is right.
func TestDropAfterClose(t *testing.T) {
	m, d := open(true)
	p := Payload{Bytes: filled(5000, 1)}
	if !m.Gather(&p, true) || m.Check(1) != nil || m.Check(0) == nil {
		t.Fatal("not registered, or not counted")
	}
	m.Close()
	m.Drop(&p)
	if len(d.mem) != 1 || m.Own() != 0 || p.Registered() {
		t.Errorf("%d registrations at the fabric, %d counted", len(d.mem), m.Own())
	}
}

// The list of pieces of a payload that has ended is used again, and is empty then.
func TestScatterAgain(t *testing.T) {
	m, d := open(false)
	for round := range 3 {
		var p Payload
		if n := m.Scatter(&p, [][]byte{filled(9, byte(round)), nil, filled(3, 7)}); n != 2 {
			t.Fatalf("round %d: %d pieces, want 2", round, n)
		}
		got, _ := packets(t, d, &p, 12, 5)
		if want := append(filled(9, byte(round)), filled(3, 7)...); !bytes.Equal(got, want) {
			t.Errorf("round %d: %v arrives, want %v", round, got, want)
		}
		if m.Join(&p); p.Scattered() || len(m.idle) != 1 {
			t.Errorf("round %d: %d lists are idle", round, len(m.idle))
		}
	}
}
