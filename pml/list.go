package pml

// The type "links" contains the list pointers of a value, and is a field of the value itself.
type links[T any] struct {
	next, prev *T
	in         bool
}

// The type "list" is an intrusive doubly linked list.
type list[T any] struct {
	first, last *T
	at          func(*T) *links[T]
}

// The method "add" appends v to the list.
func (l *list[T]) add(v *T) {
	a := l.at(v)
	*a = links[T]{prev: l.last, in: true}
	if l.last == nil {
		l.first = v
	} else {
		l.at(l.last).next = v
	}
	l.last = v
}

// putBack inserts v at the beginning of the list.
func (l *list[T]) putBack(v *T) {
	a := l.at(v)
	*a = links[T]{next: l.first, in: true}
	if l.first == nil {
		l.last = v
	} else {
		l.at(l.first).prev = v
	}
	l.first = v
}

// The method "remove" removes v from the list, if the list contains v.
func (l *list[T]) remove(v *T) {
	a := l.at(v)
	if !a.in {
		return
	}
	if a.prev == nil {
		l.first = a.next
	} else {
		l.at(a.prev).next = a.next
	}
	if a.next == nil {
		l.last = a.prev
	} else {
		l.at(a.next).prev = a.prev
	}
	*a = links[T]{}
}

// bucketsMin and bucketsMax are the limits of the number of buckets in a table.
const (
	bucketsMin = 64
	bucketsMax = 1 << 20
)

// The type "table" is a hash table whose buckets are lists. The values in a bucket are in the order
// of insertion. The function "key" returns the hash of a value.
//
// When a table grows, it gets new buckets, and the later calls of the method "add" move the values
// from the old buckets to the new ones. The time of a call therefore does not depend on the number
// of values. While values are moved, a value with a given hash is in an old bucket or in a new one.
// The values in the old bucket are older than the values with the same hash in the new bucket.
type table[T any] struct {
	buckets []list[T] // a list that was never used has no function "at"
	old     []list[T] // the buckets before the latest growth; nil when they are empty
	moved   int       // number of old buckets that are empty for good
	count   int
	late    int // eighths of a value for each bucket: how much fuller the table is when it grows
	at      func(*T) *links[T]
	key     func(*T) uint64
}

func newTable[T any](at func(*T) *links[T], key func(*T) uint64) table[T] {
	return table[T]{at: at, key: key, buckets: make([]list[T], bucketsMin)}
}

// The method "bucket" returns the list of new values with the given hash, and the method "former"
// returns the old bucket for the given hash. The method "former" may be called only while there
// are old buckets.
func (t *table[T]) bucket(hash uint64) *list[T] {
	return &t.buckets[hash>>32&uint64(len(t.buckets)-1)]
}

func (t *table[T]) former(hash uint64) *list[T] {
	return &t.old[hash>>32&uint64(len(t.old)-1)]
}

// The method "first" returns the oldest value that can have the given hash, and the method "after"
// returns the next such value behind the value v. If there is none, the result is nil. A value with
// another hash can be among the values that the two methods return.
func (t *table[T]) first(hash uint64) *T {
	if t.old != nil {
		if v := t.former(hash).first; v != nil {
			return v
		}
	}
	return t.bucket(hash).first
}

func (t *table[T]) after(v *T, hash uint64) *T {
	if next := t.at(v).next; next != nil {
		return next
	}
	if t.old != nil && t.former(hash).last == v {
		return t.bucket(hash).first
	}
	return nil
}

func (t *table[T]) add(v *T) {
	if t.old != nil {
		t.move()
	} else if n := len(t.buckets); t.count >= 2*n+t.late*(n/8) && n < bucketsMax {
		t.old, t.moved = t.buckets, 0
		t.buckets = make([]list[T], 2*len(t.old))
	}
	t.count++
	b := t.bucket(t.key(v))
	b.at = t.at
	b.add(v)
}

// moveSteps is the number of steps in a call of the method "move". The table does not grow while
// old values are left. With two steps in each call of the method "add", none are left when the
// table is full again.
const moveSteps = 2

// The method "move" moves values from the old buckets to the new ones. A step moves the newest
// value of an old bucket, or goes on to the next old bucket.
func (t *table[T]) move() {
	for range moveSteps {
		from := &t.old[t.moved]
		v := from.last
		if v == nil {
			if t.moved++; t.moved == len(t.old) {
				t.old = nil
				return
			}
			continue
		}
		from.remove(v)
		b := t.bucket(t.key(v))
		b.at = t.at
		b.putBack(v)
	}
}

func (t *table[T]) remove(v *T) {
	if t.at(v).in {
		t.take(v, t.key(v))
	}
}

// The method "take" removes a value with the given hash, which must be in the table.
func (t *table[T]) take(v *T, hash uint64) {
	t.count--
	b := t.bucket(hash)
	if t.old != nil {
		// A value that is neither the first nor the last of its list can be removed by any list.
		if o := t.former(hash); o.first == v || o.last == v {
			b = o
		}
	}
	b.at = t.at
	b.remove(v)
}

// The function "hash" returns the hash of a peer and a tag. The seed of the hash is random, so that
// a peer cannot choose tags that share a bucket with another peer's tags.
func hash(seed uint64, peer uint32, tag uint64) uint64 {
	h := (tag ^ uint64(peer)<<40 ^ uint64(peer) ^ seed) * 0x9e3779b97f4a7c15
	return (h ^ h>>29) * 0xbf58476d1ce4e5b9
}
