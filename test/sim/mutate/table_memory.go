package main

// The faults of memory that the fabric reads and writes without a copy.
var memoryMutations = []mutation{
	{
		name:  "landed-not-put-back",
		fault: "what landed and was not expected there is not put behind its header again",
		file:  "btl/landing.go",
		old:   "\t\t\tcopy(b[comp.Len-landed:comp.Len], l.mem[comp.LandedOff:])\n",
		new:   "\t\t\t_, _ = b, landed\n",
		test:  "./btl -run TestLanding",
	},
	{
		name:  "landed-anywhere",
		fault: "a chunk that landed at the place of another one counts as in its place",
		file:  "btl/landing.go",
		old:   " || h.OffsetBytes != base+comp.LandedOff {",
		new:   " || base+comp.LandedOff == h.SizeBytes {",
		test:  "./btl -run TestLanding",
	},
	{
		name:  "landed-in-another-fragment",
		fault: "a chunk that landed in another fragment of its connection counts as in its place",
		file:  "btl/landing.go",
		old:   "h.Conn != l.tag || h.FragID != l.fragID ||",
		new:   "h.Conn != l.tag ||",
		test:  "./btl -run TestLanding",
	},
	{
		name:  "landed-ahead-no-room",
		fault: "a poll keeps no room for what the provider has taken in ahead",
		file:  "btl/channel.go",
		old:   "max(m.cfg.PollBatch, depth+c.caps.TxDepth))",
		new:   "m.cfg.PollBatch)",
		test:  "./test/sim -run TestRegressions",
	},
	{
		name:  "gathered-done-at-once",
		fault: "a lone message that the fabric gathers from the caller's memory is done at once",
		file:  "btl/send.go",
		old:   "if f.Signal || m.segs[t].gather != 0 {",
		new:   "if f.Signal {",
		test:  "./test/sim/scenario -run TestScenarios/gather-lone",
	},
	{
		name:  "gathered-region-kept",
		fault: "the registration that was made for one message stays",
		file:  "btl/ack.go",
		old:   "\tif f.ownRegion {\n\t\tm.dropRegion(f)\n\t}\n",
		new:   "",
		test:  "./btl -run TestContract02|TestGather",
	},
}
