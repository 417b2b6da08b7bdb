package main

import "slices"

// mutation is one deliberate fault.
type mutation struct {
	name  string // what it is called: lower case and hyphens
	fault string // what the module does wrong
	file  string // where, from the root of the sources
	old   string // text that stands there exactly once
	new   string // what takes its place
	test  string // arguments of the "go test" that notices it if the swarm does not
}

// mutations is every fault there is.
func mutations() []mutation {
	return slices.Concat(btlMutations, packMutations, flowMutations, memoryMutations,
		reliableMutations, recoveryMutations, partMutations)
}

// The faults in the packages below btl.
var partMutations = []mutation{
	{
		name:  "no-wrap",
		fault: "sequence numbers are compared as if they never wrapped",
		file:  "internal/seq/seq.go",
		old:   "return int32(s-t) < 0 }",
		new:   "return s < t }",
		test:  "./reliability",
	},
	{
		name:  "duplicate-in-window",
		fault: "a packet that came early is taken a second time",
		file:  "reliability/receiver.go",
		old:   "case r.held > 0 && r.bit(n):",
		new:   "case r.held > 0 && n == r.next && r.bit(n):",
		test:  "./reliability -run TestReceiver",
	},
	{
		name:  "window-low-edge",
		fault: "the last packet received in order counts as one from beyond the window",
		file:  "reliability/receiver.go",
		old:   "case d < 0:\n",
		new:   "case d < -1:\n",
		test:  "./reliability -run TestReceiver",
	},
	{
		name:  "window-high-edge",
		fault: "the receive window is one packet too wide",
		file:  "reliability/receiver.go",
		old:   "case uint32(d) >= r.window:",
		new:   "case uint32(d) > r.window:",
		test:  "./reliability -run TestReceiver",
	},
	{
		name:  "window-narrow",
		fault: "the receive window is one packet too narrow",
		file:  "reliability/receiver.go",
		old:   "case uint32(d) >= r.window:",
		new:   "case uint32(d) >= r.window-1:",
		test:  "./reliability -run TestReceiver",
	},
	{
		name:  "ack-of-next",
		fault: "an acknowledgement covers the packet that is missing",
		file:  "reliability/receiver.go",
		old:   "return r.next - 1, r.Grant(c), dup",
		new:   "return r.next, r.Grant(c), dup",
		test:  "./reliability -run TestReceiver|TestLink",
	},
	{
		name:  "send-window-wide",
		fault: "one packet more than the window is in flight",
		file:  "reliability/sender.go",
		old:   "int32(s.window)-s.next.Sub(s.oldest))\n\tif r :=",
		new:   "int32(s.window)-s.next.Sub(s.oldest)+1)\n\tif r :=",
		test:  "./reliability -run TestWindowEdges|TestSender",
	},
	{
		name:  "no-credit-limit",
		fault: "packets are sent without credit",
		file:  "reliability/sender.go",
		old:   "min(max(s.limit.Sub(s.next), 0), int32",
		new:   "min(1<<20, int32",
		test:  "./reliability -run TestSender",
	},
	{
		name:  "ack-of-unsent",
		fault: "an acknowledgement of packets never sent is believed",
		file:  "reliability/sender.go",
		old:   "return ack.Before(s.next) }",
		new:   "return ack.Before(s.next + 8) }",
		test:  "./reliability -run TestPlausible|TestOnAck",
	},
	{
		name:  "dup-flag-ignored",
		fault: "the answer to a duplicate counts as the report of a gap",
		file:  "reliability/sender.go",
		old:   "if s.oldest == s.next || grew || dup {",
		new:   "if s.oldest == s.next || grew {",
		test:  "./reliability -run TestOnAck|TestSender",
	},
	{
		name:  "credit-zero-stops",
		fault: "a sender that is granted no credit waits for ever",
		file:  "reliability/sender.go",
		old:   "limit := ack.Add(1 + max(1, uint32(credit)))",
		new:   "limit := ack.Add(1 + uint32(credit))",
		test:  "./reliability -run TestOnAck|TestSender",
	},
	{
		name:  "credits-leak",
		fault: "a peer's credits are booked anew without taking the old booking back",
		file:  "reliability/credits.go",
		old:   "c.granted = others + grant",
		new:   "c.granted = others + grant + int(charged&1)",
		test:  "./reliability -run TestCredits",
	},
	{
		name:  "no-back-off",
		fault: "the time-out of a packet does not grow with its resends",
		file:  "reliability/segments.go",
		old:   "return s.rules.ResendTimeout << g.resends",
		new:   "return s.rules.ResendTimeout",
		test:  "./reliability -run TestBackOff",
	},
	{
		name:  "chunk-taken-twice",
		fault: "reassembly takes a chunk that it has",
		file:  "frag/assemble.go",
		old:   "if *word&bit != 0 {",
		new:   "if *word&bit != 0 && m.missing == 0 {",
		test:  "./frag -run TestAssemblerModel",
	},
	{
		name:  "chunk-off-grid",
		fault: "reassembly takes a chunk off the grid",
		file:  "frag/assemble.go",
		old:   "offset != chunk*a.roomBytes || n != int(",
		new:   "n != int(",
		test:  "./frag -run TestAssemblerModel",
	},
	{
		name:  "size-contradicted",
		fault: "a chunk may contradict the size of its fragment",
		file:  "frag/assemble.go",
		old:   "if m.sizeBytes != h.SizeBytes || m.Tag != h.Tag {",
		new:   "if m.Tag != h.Tag {",
		test:  "./btl -run TestContract06OverlappingChunks",
	},
	{
		name:  "no-memory-reserve",
		fault: "no memory is kept for the fragment that must come first",
		file:  "frag/assemble.go",
		old:   "reserveBytes := int64(p.cfg.FragBytesMax)",
		new:   "reserveBytes := int64(0)",
		test:  "./frag -run TestBudget",
	},
	{
		name:  "stale-bitmap",
		fault: "a recycled reassembly buffer keeps the bitmap of its last fragment",
		file:  "frag/pool.go",
		old:   "\t\tclear(m.have)\n",
		new:   "",
		test:  "./frag -run TestAssemblerModel",
	},
	{
		name:  "length-not-exact",
		fault: "a packet with bytes behind its payload is a packet",
		file:  "frag/header.go",
		old:   "if sizeBytes-n != int(h.PayloadLen) {",
		new:   "if sizeBytes-n < int(h.PayloadLen) {",
		test:  "./frag -run TestGoldenVectors|TestDecodeRefuses",
	},
	{
		name:  "timer-early",
		fault: "timers end up to a tick early",
		file:  "hotel/lists.go",
		old:   "\t\ttick++\n",
		new:   "",
		test:  "./hotel -run TestDue|TestModel",
	},
	{
		name:  "timer-forgotten",
		fault: "timers further ahead than a revolution of the wheel are moved a revolution late",
		file:  "hotel/wheel.go",
		old:   "\t\t\tw.approach(w.farSlot(turn))\n",
		new:   "\t\t\tw.approach(w.farSlot(turn - 1))\n",
		test:  "./hotel -run TestModel",
	},
}
