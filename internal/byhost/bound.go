package byhost

// Bound limits how much of a resource, such as bytes of memory, all Holders together may hold. The
// hosts of the Holders share the limit. The share of each host is twice the limit minus the amount
// that all hosts together hold, and a host may take more while it holds less than this share. If
// one host after another takes as much as it may, the first host gets the whole limit, the second
// host half of the limit, the third host a quarter, and so on.
//
// MayAdd ignores the size of an addition that counts, so that large additions do not wait longer
// than small ones. All hosts together hold less than the sum of twice the limit, one addition, one
// more addition for each host, and the free amount of each Holder. Make a Bound with NewBound.
type Bound struct {
	most, free int64
	counted    int64 // sum of holdingHost.counted
	hosts      map[string]*holdingHost
	spare      *holdingHost // unused memory for the next host, or nil
}

// The type "holdingHost" contains the number of Holders of one host, and the total amount of these
// Holders that counts towards the limit. A host is known while it has Holders.
type holdingHost struct {
	name    string
	holders int
	counted int64 // sum of those Holders' amounts that exceed the free amount
}

// Holder is a participant of a Bound. The zero value of a Holder belongs to no Bound and holds
// nothing.
type Holder struct {
	of   *holdingHost
	held int64
}

// NewBound makes a Bound with the limit "most". If a Holder holds at most the amount "free" (an
// argument of NewBound), this amount does not count towards the limit. However many Holders a host
// has, their amounts of at most "free" cannot use up the limit. Both arguments have the unit of the
// resource, and "most" must be at most 1<<61.
func NewBound(most, free int64) Bound { return Bound{most: most, free: free} }

// Enter makes h a Holder of the named host. If h already belongs to a different host, Enter moves
// h, with the amount that h holds, to the named host.
func (b *Bound) Enter(h *Holder, name string) {
	if h.of != nil {
		if h.of.name == name {
			return
		}
		b.count(h.of, -b.against(h.held))
		b.quit(h.of)
	}
	to := b.hosts[name]
	if to == nil {
		if to = b.spare; to == nil {
			to = new(holdingHost)
		}
		b.spare = nil
		to.name = name
		if b.hosts == nil {
			b.hosts = make(map[string]*holdingHost)
		}
		b.hosts[name] = to
	}
	to.holders++
	h.of = to
	b.count(to, b.against(h.held))
}

// Leave sets the amount that h holds to zero, and removes h from its host.
func (b *Bound) Leave(h *Holder) {
	b.Add(h, -h.held)
	b.quit(h.of)
	h.of = nil
}

// MayAdd reports whether h may add a positive amount to the amount that it holds. MayAdd returns
// true if h then holds at most the free amount, if no amount of its host counts towards the limit
// yet, or if the host has not used up its share of the limit.
func (b *Bound) MayAdd(h *Holder, amount int64) bool {
	return h.held+amount <= b.free || h.of.counted < max(1, 2*b.most-b.counted)
}

// Add adds an amount, which can be negative, to the amount that h holds. Add does not check the
// limit.
func (b *Bound) Add(h *Holder, amount int64) {
	before := b.against(h.held)
	h.held += amount
	b.count(h.of, b.against(h.held)-before)
}

// Held returns the amount that h holds.
func (h *Holder) Held() int64 { return h.held }

// Full reports whether all Holders together have reached the limit.
func (b *Bound) Full() bool { return b.counted >= b.most }

// Counted returns the sum of all Holders' amounts that count towards the limit.
func (b *Bound) Counted() int64 { return b.counted }

// Hosts returns the number of hosts that have Holders.
func (b *Bound) Hosts() int { return len(b.hosts) }

// The method "against" returns how much of the amount that a Holder holds counts towards the limit.
func (b *Bound) against(held int64) int64 {
	if held <= b.free {
		return 0
	}
	return held
}

func (b *Bound) count(of *holdingHost, amount int64) {
	of.counted += amount
	b.counted += amount
}

// The method "quit" removes one Holder of a host.
func (b *Bound) quit(of *holdingHost) {
	if of.holders--; of.holders == 0 {
		delete(b.hosts, of.name)
		of.name = ""
		b.spare = of
	}
}
