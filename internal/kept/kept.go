// Package kept limits the memory for data of peers that have disconnected.
//
//	peer "a"  [ 5 KiB ][ 4 KiB ]      --> the most of all, its oldest goes first
//	peer "b"  [ 6 KiB ]
//
// A program may receive the data of a peer even after the peer has disconnected. A peer that
// repeatedly connects, sends data and disconnects must neither fill the memory nor cause the data
// of other peers to be dropped. A Keeper counts the bytes of unread data of each disconnected peer.
// A Keeper identifies a peer by its name, because the name stays the same when the peer connects
// again. If the data of all peers exceeds the limit, the Keeper drops the oldest data of the peer
// with the most bytes.
//
// If several goroutines use a Keeper, the caller must guard the Keeper with a lock.
package kept

import "gobtl/internal/list"

// Keeper counts the bytes of data that disconnected peers have sent and the program has not
// received yet.
type Keeper[T comparable] struct {
	most, bytes int64
	things      map[T]*thing[T]
	peers       map[string]*peer[T]
	number      uint64 // number of the next peer
}

// A "thing" is one item of a peer, which is the unread data of one connection.
type thing[T comparable] struct {
	what  T
	of    *peer[T]
	at    list.Node[*thing[T]] // in of.things
	bytes int64
}

// A "peer" holds the items of one disconnected peer.
type peer[T comparable] struct {
	name   string
	number uint64
	bytes  int64
	things list.List[*thing[T]] // the oldest in front
}

// New returns an empty Keeper with a limit of mostBytes bytes for all peers together.
func New[T comparable](mostBytes int64) *Keeper[T] {
	return &Keeper[T]{
		most: mostBytes, things: map[T]*thing[T]{}, peers: map[string]*peer[T]{},
	}
}

// Add records an item, which is unread data of the named peer. The peer has disconnected. The
// argument "bytes" of Add is the size of the item in memory. The caller must free the items that
// Add returns, because the Keeper has dropped these items to stay within its limit. The items that
// Add returns can include the new item. The Keeper no longer counts the items that Add has
// returned. If the Keeper already has the item "what", Add replaces the recorded size of this item
// by the argument "bytes".
func (k *Keeper[T]) Add(name string, what T, bytes int64) (dropped []T) {
	k.Remove(what)
	p := k.peers[name]
	if p == nil {
		p = &peer[T]{name: name, number: k.number}
		k.number++
		k.peers[name] = p
	}
	t := &thing[T]{what: what, of: p, bytes: bytes}
	p.things.PushBack(&t.at, t)
	k.things[what] = t
	p.bytes += bytes
	k.bytes += bytes
	for k.bytes > k.most {
		first := k.largest().things.First() // never empty
		k.Remove(first.what)
		dropped = append(dropped, first.what)
	}
	return dropped
}

// The method "largest" returns the peer whose items have the most bytes. If several peers have the
// most bytes, the method "largest" returns the peer that was added to the Keeper first.
func (k *Keeper[T]) largest() (l *peer[T]) {
	for _, p := range k.peers {
		if l == nil || p.bytes > l.bytes || p.bytes == l.bytes && p.number < l.number {
			l = p
		}
	}
	return l
}

// Shrink reduces the recorded size of an item by the given number of bytes. Shrink does nothing if
// the Keeper does not contain the item.
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
	t.at.Remove()
	p.bytes -= t.bytes
	k.bytes -= t.bytes
	if p.things.First() == nil {
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
