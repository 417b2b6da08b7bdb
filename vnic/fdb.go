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

// FDB holds the addresses that a port has learned from frames: which host they are at. Entries age,
// and their number is bounded: when it is full nothing new is learned until some have aged.
type FDB struct {
	ageing  time.Duration
	max     int
	entries map[fdbKey]fdbValue
	swept   mono.Time
	refused uint64
}

// sweepEvery is the least time between two searches for aged entries in a full table, so that a
// flood of addresses does not make each frame a search.
const sweepEvery = time.Second

// Configure sets ageing and size; what is too much is forgotten as it ages.
func (t *FDB) Configure(o Options) {
	o = o.WithDefaults()
	t.ageing, t.max = o.ageing(), int(min(o.LearnedMax, FDBEntriesMax))
	if t.entries == nil {
		t.entries = make(map[fdbKey]fdbValue)
	}
	if !o.Learning {
		clear(t.entries)
	}
}

// Learn notes that frames from an address come from a host. It returns false if there is no room.
func (t *FDB) Learn(now mono.Time, m MAC, vlan uint16, lid uint32) bool {
	key := keyOf(m, vlan)
	old, known := t.entries[key]
	if known && old.lid == lid && now.Sub(old.seen) < t.ageing/8 {
		return true // a write for each frame would be for nothing
	}
	if !known && len(t.entries) >= t.max {
		if t.swept != 0 && now.Sub(t.swept) < sweepEvery {
			t.refused++
			return false
		}
		t.Sweep(now)
		if len(t.entries) >= t.max {
			t.refused++
			return false
		}
	}
	t.entries[key] = fdbValue{lid: lid, seen: now}
	return true
}

// Lookup returns the host of an address.
func (t *FDB) Lookup(now mono.Time, m MAC, vlan uint16) (lid uint32, ok bool) {
	v, ok := t.entries[keyOf(m, vlan)]
	if !ok || now.Sub(v.seen) > t.ageing {
		return 0, false
	}
	return v.lid, true
}

// Sweep forgets what has aged.
func (t *FDB) Sweep(now mono.Time) {
	t.swept = now
	for k, v := range t.entries {
		if now.Sub(v.seen) > t.ageing {
			delete(t.entries, k)
		}
	}
}

// Forget drops what was learned of a host that is no member any more.
func (t *FDB) Forget(keep func(lid uint32) bool) {
	for k, v := range t.entries {
		if !keep(v.lid) {
			delete(t.entries, k)
		}
	}
}

// Entries lists what has not aged.
func (t *FDB) Entries(now mono.Time) []FDBEntry {
	list := make([]FDBEntry, 0, len(t.entries))
	for k, v := range t.entries {
		if now.Sub(v.seen) <= t.ageing {
			list = append(list, FDBEntry{
				MAC: MAC(k) & Broadcast, VLAN: uint16(k >> 48), LID: v.lid, Seen: v.seen,
			})
		}
	}
	return list
}

// Len is the number of entries.
func (t *FDB) Len() int { return len(t.entries) }

// bucket bounds a rate: a second's worth may pass at once.
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

// take says whether one more may pass.
func (b *bucket) take(now mono.Time) bool {
	if b.at == 0 {
		b.at = now
	}
	full := int64(b.perSecond) * billion
	d := min(max(now.Sub(b.at), 0), time.Second)
	b.tokens = min(b.tokens+int64(d)*int64(b.perSecond), full)
	b.at = now
	if b.tokens < billion {
		return false
	}
	b.tokens -= billion
	return true
}
