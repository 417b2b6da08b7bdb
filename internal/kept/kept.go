// Package kept bounds what is kept of peers that have left.
//
//	peer "a"  [ 5 KiB ][ 4 KiB ]          the most of all: its oldest goes first
//	peer "b"  [ 6 KiB ]
//
// What a peer has sent may be taken after it has gone. A peer that comes, leaves something and
// goes, again and again, must not fill the memory so, nor crowd out what others have left. So a
// Keeper counts what is held for each peer by its name, which a new connection does not change, and
// what is over the bound is taken from the peer that has the most.
//
// A Keeper belongs to one goroutine, or is guarded by its owner's lock.
package kept

import "slices"

// Keeper keeps account of things of peers that have left.
type Keeper[T comparable] struct {
	most, bytes int64
	things      map[T]*thing[T]
	peers       map[string]*peer[T]
	number      uint64 // of the next peer
}

// thing is what one connection has left.
type thing[T comparable] struct {
	what  T
	of    *peer[T]
	bytes int64
}

// peer is all that one peer has left.
type peer[T comparable] struct {
	name   string
	number uint64
	bytes  int64
	things []*thing[T] // the oldest in front
}

// New returns a Keeper of at most so many bytes.
func New[T comparable](mostBytes int64) *Keeper[T] {
	return &Keeper[T]{
		most: mostBytes, things: map[T]*thing[T]{}, peers: map[string]*peer[T]{},
	}
}

// Add keeps a thing of a peer, which takes so many bytes of memory, all that belongs to it counted.
// It returns what is to be dropped for it, which may be the thing itself; the Keeper has forgotten
// that. A thing that is kept already has another size from now on.
func (k *Keeper[T]) Add(name string, what T, bytes int64) (dropped []T) {
	k.Remove(what)
	p := k.peers[name]
	if p == nil {
		p = &peer[T]{name: name, number: k.number}
		k.number++
		k.peers[name] = p
	}
	t := &thing[T]{what: what, of: p, bytes: bytes}
	p.things = append(p.things, t)
	k.things[what] = t
	p.bytes += bytes
	k.bytes += bytes
	for k.bytes > k.most {
		first := k.largest().things[0].what
		k.Remove(first)
		dropped = append(dropped, first)
	}
	return dropped
}

// largest is the peer that has the most, the first to leave among equals.
func (k *Keeper[T]) largest() (l *peer[T]) {
	for _, p := range k.peers {
		if l == nil || p.bytes > l.bytes || p.bytes == l.bytes && p.number < l.number {
			l = p
		}
	}
	return l
}

// Shrink says that so many bytes of a thing are gone. One that is not kept is left as it is.
func (k *Keeper[T]) Shrink(what T, bytes int64) {
	if t := k.things[what]; t != nil {
		bytes = min(bytes, t.bytes)
		t.bytes -= bytes
		t.of.bytes -= bytes
		k.bytes -= bytes
	}
}

// Remove forgets a thing, if it is kept.
func (k *Keeper[T]) Remove(what T) {
	t := k.things[what]
	if t == nil {
		return
	}
	delete(k.things, what)
	p := t.of
	i := slices.Index(p.things, t)
	p.things = slices.Delete(p.things, i, i+1)
	p.bytes -= t.bytes
	k.bytes -= t.bytes
	if len(p.things) == 0 {
		delete(k.peers, p.name)
	}
}

// Has says whether a thing is kept.
func (k *Keeper[T]) Has(what T) bool { return k.things[what] != nil }

// Bytes is what all things take.
func (k *Keeper[T]) Bytes() int64 { return k.bytes }

// Of is how many things of a peer are kept.
func (k *Keeper[T]) Of(name string) int {
	if p := k.peers[name]; p != nil {
		return len(p.things)
	}
	return 0
}
