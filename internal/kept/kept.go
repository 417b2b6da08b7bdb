// Package kept limits the memory for data of peers that have disconnected.
//
//	peer "a"  [ 5 KiB ][ 4 KiB ]          the most of all, its oldest goes first
//	peer "b"  [ 6 KiB ]
//
// The data of a peer may be received after the peer has disconnected. A peer that
// repeatedly connects, sends data and disconnects must not fill the memory, and must not
// displace the data of other peers. A Keeper counts the bytes that each peer has left. A Keeper
// knows a peer by name, because the name does not change when the peer connects again. When the
// limit is exceeded, data of the peer with the most bytes is dropped first.
//
// A Keeper belongs to one goroutine, or its owner must guard the Keeper with a lock.
package kept

import "container/list"

// Keeper accounts for the data of disconnected peers.
type Keeper[T comparable] struct {
	most, bytes int64
	things      map[T]*thing[T]
	peers       map[string]*peer[T]
	number      uint64 // number of the next peer
}

// A thing is the data that one connection of a peer has left.
type thing[T comparable] struct {
	what  T
	of    *peer[T]
	at    *list.Element // in of.things
	bytes int64
}

// peer holds all data that one peer has left.
type peer[T comparable] struct {
	name   string
	number uint64
	bytes  int64
	things list.List // of *thing[T], the oldest in front
}

// New returns a Keeper with a limit of mostBytes bytes.
func New[T comparable](mostBytes int64) *Keeper[T] {
	return &Keeper[T]{
		most: mostBytes, things: map[T]*thing[T]{}, peers: map[string]*peer[T]{},
	}
}

// Add adds an item of data, which the named peer has left, to the Keeper. The argument bytes of Add
// is the size of the item in memory. To keep the limit, the caller must free the items that Add
// returns, which may include the new item. The Keeper no longer counts the returned items. If the
// item was already added to the Keeper, Add changes the size of the item.
func (k *Keeper[T]) Add(name string, what T, bytes int64) (dropped []T) {
	k.Remove(what)
	p := k.peers[name]
	if p == nil {
		p = &peer[T]{name: name, number: k.number}
		k.number++
		k.peers[name] = p
	}
	t := &thing[T]{what: what, of: p, bytes: bytes}
	t.at = p.things.PushBack(t)
	k.things[what] = t
	p.bytes += bytes
	k.bytes += bytes
	for k.bytes > k.most {
		first := k.largest().things.Front().Value.(*thing[T]) // never empty
		k.Remove(first.what)
		dropped = append(dropped, first.what)
	}
	return dropped
}

// largest returns the peer with the most bytes. Of several peers with the same number of bytes,
// largest returns the peer that disconnected first.
func (k *Keeper[T]) largest() (l *peer[T]) {
	for _, p := range k.peers {
		if l == nil || p.bytes > l.bytes || p.bytes == l.bytes && p.number < l.number {
			l = p
		}
	}
	return l
}

// Shrink reduces the size of an item by the given bytes. If the item is unknown, Shrink does
// nothing.
func (k *Keeper[T]) Shrink(what T, bytes int64) {
	if t := k.things[what]; t != nil {
		bytes = min(bytes, t.bytes)
		t.bytes -= bytes
		t.of.bytes -= bytes
		k.bytes -= bytes
	}
}

// Remove removes the item, if the Keeper has it.
func (k *Keeper[T]) Remove(what T) {
	t := k.things[what]
	if t == nil {
		return
	}
	delete(k.things, what)
	p := t.of
	p.things.Remove(t.at)
	p.bytes -= t.bytes
	k.bytes -= t.bytes
	if p.things.Len() == 0 {
		delete(k.peers, p.name)
	}
}

// Has reports whether the Keeper has the item.
func (k *Keeper[T]) Has(what T) bool { return k.things[what] != nil }

// Bytes returns the total size of all items.
func (k *Keeper[T]) Bytes() int64 { return k.bytes }

// Of returns the number of items of the named peer.
func (k *Keeper[T]) Of(name string) int {
	if p := k.peers[name]; p != nil {
		return p.things.Len()
	}
	return 0
}
