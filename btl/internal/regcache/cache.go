package regcache

import (
	"fmt"
	"unsafe"

	"github.com/google/btree"

	"gobtl/fabric"
)

// Registration keeps memory registered with the fabric. If the provider supports gathering, the
// network device reads large fragments directly from registered memory, without a copy.
type Registration struct {
	cache *Cache
	entry *entry
}

// The type "entry" is one registered address range, which several Registrations can share.
type entry struct {
	start, end uintptr
	mem        []byte // keeps the memory reachable
	region     fabric.Region
	users      int
}

// Cache contains the registered ranges, ordered by address. If two registered ranges have the same
// start, the Cache contains only the longer range.
type Cache struct {
	dom  fabric.Domain
	tree *btree.BTreeG[*entry]
	key  entry // scratch of find
}

// Init makes an empty cache for registrations with the fabric's Domain dom.
func (c *Cache) Init(dom fabric.Domain) {
	c.dom = dom
	c.tree = btree.NewG(16, func(a, b *entry) bool { return a.start < b.start })
}

// Register registers the memory "mem" with the fabric, or shares an existing registration that
// covers this memory. The slice "mem" must not be empty. Register returns the errors of the
// provider unchanged.
func (c *Cache) Register(mem []byte) (*Registration, error) {
	e := c.find(mem)
	if e == nil {
		region, err := c.dom.RegisterRegion(mem)
		if err != nil {
			return nil, err
		}
		e = &entry{mem: mem, region: region}
		e.start, e.end = span(mem)
		c.tree.ReplaceOrInsert(e)
	}
	e.users++
	return &Registration{cache: c, entry: e}, nil
}

// Close ends the registration. The caller must not call Close while a fragment is being sent from
// the registered memory. A second call of Close does nothing.
func (r *Registration) Close() {
	e, c := r.entry, r.cache
	if e == nil {
		return
	}
	r.entry = nil
	if e.users--; e.users > 0 {
		return
	}
	if cur, ok := c.tree.Get(e); ok && cur == e { // no longer range has replaced it
		c.tree.Delete(e)
	}
	_ = c.dom.DeregisterRegion(e.region)
	e.mem = nil
}

// Find returns the fabric's region that contains the memory "mem", and the offset of this memory in
// the region. The region is 0 if Find finds no registration that covers the memory "mem".
func (c *Cache) Find(mem []byte) (region fabric.Region, offset uint64) {
	e := c.find(mem)
	if e == nil {
		return 0, 0
	}
	lo, _ := span(mem)
	return e.region, uint64(lo - e.start)
}

// find returns an entry that covers the memory "mem", or nil if it finds no such entry. Among the
// entries that do not start after the memory "mem", find examines only the entry with the highest
// start address. An entry with a lower start address is not found, even if it covers the memory
// "mem".
func (c *Cache) find(mem []byte) *entry {
	if len(mem) == 0 || c.tree.Len() == 0 {
		return nil
	}
	lo, hi := span(mem)
	var found *entry
	c.key.start = lo
	c.tree.DescendLessOrEqual(&c.key, func(e *entry) bool {
		if e.end >= hi {
			found = e
		}
		return false
	})
	return found
}

func span(mem []byte) (lo, hi uintptr) {
	lo = uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	return lo, lo + uintptr(len(mem))
}

// Check returns an error if a range is registered although no Registration uses it, and nil
// otherwise.
func (c *Cache) Check() (err error) {
	c.tree.Ascend(func(e *entry) bool {
		if e.users <= 0 {
			err = fmt.Errorf("regcache: a registration has %d users", e.users)
		}
		return err == nil
	})
	return err
}
