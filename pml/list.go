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
type table[T any] struct {
	buckets []list[T]
	count   int
	at      func(*T) *links[T]
	key     func(*T) uint64
}

func newTable[T any](at func(*T) *links[T], key func(*T) uint64) table[T] {
	t := table[T]{at: at, key: key}
	t.buckets = t.empty(bucketsMin)
	return t
}

func (t *table[T]) empty(n int) []list[T] {
	buckets := make([]list[T], n)
	for i := range buckets {
		buckets[i].at = t.at
	}
	return buckets
}

// The method "bucket" returns the list that contains the values with the given hash.
func (t *table[T]) bucket(hash uint64) *list[T] {
	return &t.buckets[hash>>32&uint64(len(t.buckets)-1)]
}

func (t *table[T]) add(v *T) {
	if t.count >= 2*len(t.buckets) && len(t.buckets) < bucketsMax {
		old := t.buckets
		t.buckets = t.empty(2 * len(old))
		for i := range old {
			for v := old[i].first; v != nil; {
				next := t.at(v).next
				t.bucket(t.key(v)).add(v)
				v = next
			}
		}
	}
	t.count++
	t.bucket(t.key(v)).add(v)
}

func (t *table[T]) remove(v *T) {
	if t.at(v).in {
		t.count--
		t.bucket(t.key(v)).remove(v)
	}
}

// The function "hash" returns the hash of a peer and a tag. The seed of the hash is random, so that
// a peer cannot choose tags that share a bucket with another peer's tags.
func hash(seed uint64, peer uint32, tag uint64) uint64 {
	h := (tag ^ uint64(peer)<<40 ^ uint64(peer) ^ seed) * 0x9e3779b97f4a7c15
	return (h ^ h>>29) * 0xbf58476d1ce4e5b9
}
