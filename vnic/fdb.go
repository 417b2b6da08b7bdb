package vnic

import (
	"time"

	"gobtl/internal/mono"
)

// fdbKey is an address on a VLAN.
type fdbKey uint64

func keyOf(m MAC, vlan uint16) fdbKey { return fdbKey(m) | fdbKey(vlan)<<48 }

// FDBEntry is a learned address.
type FDBEntry struct {
	MAC  MAC
	VLAN uint16
	LID  uint32
	Seen mono.Time
}

type fdbValue struct {
	lid  uint32
	seen mono.Time
}

func (v fdbValue) owner() uint32 { return v.lid }

// FDB (forwarding database) maps the source addresses of received frames to the hosts that sent the
// frames. The entries of an FDB expire, and an FDB limits the number of its entries. In a full FDB,
// a new entry of a host with less than an equal share of the entries replaces an entry of a host
// with more than an equal share.
type FDB struct {
	ageing  time.Duration
	max     int
	entries shares[fdbKey, fdbValue]
	swept   mono.Time
}

// sweepEvery is the minimum time between two searches of a full table for expired entries.
const sweepEvery = time.Second

// Configure sets the ageing time of entries and the largest number of entries. If the table has
// more entries than the new largest number, the excess entries stay until they expire.
func (t *FDB) Configure(o Options) {
	o = o.WithDefaults()
	t.ageing, t.max = o.ageing(), int(min(o.LearnedMax, FDBEntriesMax))
	if !o.Learning {
		t.entries = shares[fdbKey, fdbValue]{}
	}
}

// Learn records that frames with the source address m on the VLAN come from the host with the LID
// "lid". Learn returns false if the table has no room for a new entry of this host, and otherwise
// true.
func (t *FDB) Learn(now mono.Time, m MAC, vlan uint16, lid uint32) bool {
	key := keyOf(m, vlan)
	old, known := t.entries.rows[key]
	if known && old.lid == lid && now.Sub(old.seen) < t.ageing/8 {
		return true // recent enough: saves a write for each frame
	}
	if !known {
		if t.Len() >= t.max && (t.swept == 0 || now.Sub(t.swept) >= sweepEvery) {
			t.Sweep(now)
		}
		if !t.entries.room(lid, t.max) {
			return false
		}
	}
	t.entries.put(key, fdbValue{lid: lid, seen: now})
	return true
}

// Lookup returns the LID of the host whose address m on the VLAN was learned. The result "ok" of
// Lookup is false if the table has no entry for the address or if the entry has expired, and
// otherwise true.
func (t *FDB) Lookup(now mono.Time, m MAC, vlan uint16) (lid uint32, ok bool) {
	v, ok := t.entries.rows[keyOf(m, vlan)]
	if !ok || now.Sub(v.seen) > t.ageing {
		return 0, false
	}
	return v.lid, true
}

// Sweep removes the expired entries.
func (t *FDB) Sweep(now mono.Time) {
	t.swept = now
	t.entries.drop(func(_ fdbKey, v fdbValue) bool { return now.Sub(v.seen) <= t.ageing })
}

// Forget removes the entries of those hosts for whose LIDs the function "keep" returns false.
func (t *FDB) Forget(keep func(lid uint32) bool) {
	t.entries.drop(func(_ fdbKey, v fdbValue) bool { return keep(v.lid) })
}

// Entries lists the entries that have not expired.
func (t *FDB) Entries(now mono.Time) []FDBEntry {
	list := make([]FDBEntry, 0, t.Len())
	for k, v := range t.entries.rows {
		if now.Sub(v.seen) <= t.ageing {
			list = append(list, FDBEntry{
				MAC: MAC(k) & Broadcast, VLAN: uint16(k >> 48), LID: v.lid, Seen: v.seen,
			})
		}
	}
	return list
}

// Len is the number of entries.
func (t *FDB) Len() int { return len(t.entries.rows) }

// The type "bucket" is a token bucket that limits a rate of frames, and whose capacity is the
// number of tokens for one second.
type bucket struct {
	perSecond uint32
	tokens    int64 // in billionths, so that no rate is rounded away
	at        mono.Time
}

const billion = 1_000_000_000

func (b *bucket) configure(perSecond uint32) {
	if b.perSecond != perSecond {
		*b = bucket{perSecond: perSecond, tokens: int64(perSecond) * billion}
	}
}

// take reports whether the rate limit allows n more frames at the time "now". If the limit allows
// the n frames, the method "take" removes n tokens from the bucket. If n exceeds the capacity of
// the bucket, the method "take" requires and removes only as many tokens as the capacity.
func (b *bucket) take(now mono.Time, n int) bool {
	if b.at == 0 {
		b.at = now
	}
	full := int64(b.perSecond) * billion
	d := min(max(now.Sub(b.at), 0), time.Second)
	b.tokens = min(b.tokens+int64(d)*int64(b.perSecond), full)
	b.at = now
	want := min(int64(n)*billion, full)
	if b.tokens < want {
		return false
	}
	b.tokens -= want
	return true
}
