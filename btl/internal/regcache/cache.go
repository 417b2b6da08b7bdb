package regcache

import (
	"fmt"
	"unsafe"

	"github.com/google/btree"

	"gobtl/fabric"
)

// Registration keeps memory registered with the fabric. If the provider supports gathering, the
// network reads large fragments directly from registered memory, without a copy.
type Registration struct {
	cache *Cache
	entry *entry
}

// entry is one registered address range, which several Registrations may share.
type entry struct {
	start, end uintptr
	mem        []byte // keeps the memory reachable
	region     fabric.Region
	users      int
	idlePrev   *entry // list of entries without users, oldest first
	idleNext   *entry
}

// Cache holds the registered ranges, ordered by address. If two registered ranges have the same
// start, the longer range replaces the shorter one.
type Cache struct {
	dom     fabric.Domain
	tree    *btree.BTreeG[*entry]
	key     entry // scratch of find
	idle    entry // head of a ring
	idleLen int
	keep    int
}

// Init makes an empty cache for registrations with dom. The cache keeps at most keep unused ranges.
func (c *Cache) Init(dom fabric.Domain, keep int) {
	c.dom, c.keep = dom, keep
	c.tree = btree.NewG(16, func(a, b *entry) bool { return a.start < b.start })
	c.idle.idlePrev, c.idle.idleNext = &c.idle, &c.idle
}

// Register registers mem with the fabric, or shares a registration that covers mem. The slice mem
// must not be empty. The errors of Register are those of the provider.
func (c *Cache) Register(mem []byte) (*Registration, error) {
	e := c.find(mem)
	if e == nil {
		region, err := c.dom.RegisterRegion(mem)
		if err != nil {
			return nil, err
		}
		e = &entry{mem: mem, region: region}
		e.start, e.end = span(mem)
		if old, ok := c.tree.ReplaceOrInsert(e); ok && old.users == 0 {
			c.unlinkIdle(old)
			c.release(old)
		}
	} else if e.users == 0 {
		c.unlinkIdle(e)
	}
	e.users++
	return &Registration{cache: c, entry: e}, nil
}

// Close ends the registration. Close must not be called while a fragment in the memory is being
// sent. Further calls of Close do nothing.
func (r *Registration) Close() {
	e, c := r.entry, r.cache
	if e == nil {
		return
	}
	r.entry = nil
	if e.users--; e.users > 0 {
		return
	}
	if cur, ok := c.tree.Get(e); !ok || cur != e { // a larger range has replaced it in the meantime
		c.release(e)
		return
	}
	e.idlePrev, e.idleNext = c.idle.idlePrev, &c.idle
	e.idlePrev.idleNext, e.idleNext.idlePrev = e, e
	c.idleLen++
	for c.idleLen > c.keep {
		old := c.idle.idleNext
		c.unlinkIdle(old)
		c.tree.Delete(old)
		c.release(old)
	}
}

func (c *Cache) unlinkIdle(e *entry) {
	e.idlePrev.idleNext, e.idleNext.idlePrev = e.idleNext, e.idlePrev
	e.idlePrev, e.idleNext = nil, nil
	c.idleLen--
}

func (c *Cache) release(e *entry) {
	_ = c.dom.DeregisterRegion(e.region)
	e.mem = nil
}

// Find returns the fabric's region that contains mem, and the offset of mem in that region. Find
// returns the region 0 if no registration in use covers mem.
func (c *Cache) Find(mem []byte) (region fabric.Region, offset uint64) {
	e := c.find(mem)
	if e == nil || e.users == 0 { // an idle entry may be evicted at any time, also under a send
		return 0, 0
	}
	lo, _ := span(mem)
	return e.region, uint64(lo - e.start)
}

// find returns the entry that covers mem, or nil. find examines only the last entry that starts
// at or before mem, and returns nil if only another entry covers mem.
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

// Check verifies the list of unused registrations, and returns nil if it is correct.
func (c *Cache) Check() error {
	idle := 0
	for e := c.idle.idleNext; e != &c.idle && idle <= c.idleLen; e = e.idleNext {
		if idle++; e.users != 0 {
			return fmt.Errorf("regcache: a registration with %d users is idle", e.users)
		}
	}
	if idle != c.idleLen || idle > c.keep {
		return fmt.Errorf("regcache: %d idle registrations, %d counted, at most %d", idle, c.idleLen,
			c.keep)
	}
	return nil
}
