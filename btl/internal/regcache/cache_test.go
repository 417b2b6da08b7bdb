package regcache

import (
	"errors"
	"strings"
	"testing"

	"gobtl/fabric"
)

// registrar is a Domain that only registers memory.
type registrar struct {
	fabric.Domain
	next fabric.Region
	mem  map[fabric.Region][]byte
	err  error
}

func (r *registrar) RegisterRegion(mem []byte) (fabric.Region, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.next++
	r.mem[r.next] = mem
	return r.next, nil
}

func (r *registrar) DeregisterRegion(region fabric.Region) error {
	if r.mem[region] == nil {
		return errors.New("no such region")
	}
	delete(r.mem, region)
	return nil
}

func open() (*Cache, *registrar) {
	dom := &registrar{mem: map[fabric.Region][]byte{}}
	c := new(Cache)
	c.Init(dom)
	return c, dom
}

func register(t *testing.T, c *Cache, mem []byte) *Registration {
	t.Helper()
	r, err := c.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return r
}

// Memory inside of a range shares its region, and is found where it lies there.
func TestFind(t *testing.T) {
	c, dom := open()
	block := make([]byte, 10_000)
	whole := register(t, c, block[1000:5000])
	inner := register(t, c, block[2000:3000])
	for _, v := range []struct {
		from, to int
		region   fabric.Region
		offset   uint64
	}{
		{1000, 5000, 1, 0},
		{2000, 3000, 1, 1000},
		{4999, 5000, 1, 3999},
		{999, 1001, 0, 0},
		{4999, 5001, 0, 0},
		{6000, 6001, 0, 0},
		{2000, 2000, 0, 0},
	} {
		if region, offset := c.Find(block[v.from:v.to]); region != v.region || offset != v.offset {
			t.Errorf("[%d, %d): region %d, offset %d, want %d, %d", v.from, v.to, region, offset, v.region,
				v.offset)
		}
	}
	whole.Close()
	whole.Close() // which does nothing
	if region, _ := c.Find(block[2000:3000]); region != 1 {
		t.Error("a range with one user left is not found")
	}
	inner.Close()
	if region, _ := c.Find(block[2000:3000]); region != 0 || len(dom.mem) != 0 {
		t.Errorf("a range without users is found as %d; %d are registered", region, len(dom.mem))
	}
}

// A longer range from the same start takes the place of the shorter one, which is deregistered with
// its last user.
func TestLonger(t *testing.T) {
	c, dom := open()
	block := make([]byte, 1000)
	short := register(t, c, block[:100])
	long := register(t, c, block[:1000])
	if region, _ := c.Find(block[:50]); region != 2 || len(dom.mem) != 2 {
		t.Errorf("found region %d of %d", region, len(dom.mem))
	}
	short.Close()
	if len(dom.mem) != 1 || dom.mem[2] == nil {
		t.Errorf("%d regions are left", len(dom.mem))
	}
	long.Close()
	if len(dom.mem) != 0 {
		t.Errorf("%d regions are left", len(dom.mem))
	}
}

func TestRefused(t *testing.T) {
	c, dom := open()
	dom.err = fabric.ErrNotSupported
	if r, err := c.Register(make([]byte, 8)); r != nil || !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("%v, %v", r, err)
	}
}

// TestCheck: a range without a user is found.
func TestCheck(t *testing.T) {
	c, _ := open()
	r := register(t, c, make([]byte, 8))
	r.entry.users--
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "0 users") {
		t.Error(err)
	}
}
