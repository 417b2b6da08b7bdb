package main

// The faults of operations on a peer's memory.
var remoteMutations = []mutation{
	{
		name:  "notice-early",
		fault: "the notice of a put is delivered when it comes, and not when all bytes are there",
		in:    "btl",
		old:   "!$p.here || $p.arrived < $p.total",
		new:   "!$p.here",
		test:  "./btl -run TestPutNotice",
	},
	{
		name:  "notice-counts-refused",
		fault: "a packet of a put that was refused counts for its notice",
		in:    "btl",
		old: `if !$m.writeInto($in, $in.payload, $_) {
	return
}`,
		with: "p.arrived += $_",
		new: `if !$m.writeInto($in, $in.payload, RemoteWrite|RemoteNotify) {
	p := $in.ep.place($in.Header.Op)
	p.arrived += uint64(len($in.payload))
	$m.notify($in.ep, p)
	return
}`,
		test: "./btl -run TestRemoteRefused|TestRegionClose",
	},
	{
		name:  "notice-any-right",
		fault: "a put with a notice needs no right to notify",
		in:    "btl",
		old:   "RemoteWrite | RemoteNotify",
		with:  "place($_)",
		new:   "RemoteWrite",
		test:  "./btl -run TestRemoteRefused",
	},
	{
		name:  "place-not-kept",
		fault: "a put with a notice takes the place of one that is under way",
		in:    "btl",
		old:   "$asks.places[($asks.lastPut+1)%noticePlaces]",
		new:   "false",
		test:  "./btl -run TestPutNoticeMany",
	},
	{
		name:  "get-short",
		fault: "a get is over when the first packet of its answer is here",
		in:    "btl",
		old:   "$o.arrived >= uint32(len($o.into.mem))",
		new:   "$o.arrived >= min(1, uint32(len($o.into.mem)))",
		test:  "./btl -run TestGet",
	},
	{
		name:  "get-keeps-right",
		fault: "the memory of a get stays exposed when it is over",
		in:    "btl",
		old:   "exposed.Remove(uint64($o.into.handle))",
		new:   "exposed.Replace(uint64($o.into.handle), &$o.into)",
		test:  "./btl -run TestGet|TestRemote",
	},
	{
		name:  "atomic-unaligned",
		fault: "an atomic operation may be anywhere",
		in:    "btl",
		old:   "$a.Offset%uint64($width) != 0",
		new:   "$a.Offset%uint64($width) > 64",
		test:  "./btl -run TestRemoteRefused",
	},
	{
		name:  "atomic-before-accepted",
		fault: "an atomic operation brings the new value",
		in:    "btl",
		old:   "PutResult($f.mem, $old)",
		new:   "frag.PutResult($f.mem, a.Apply($old))",
		test:  "./btl -run TestAtomics",
	},
	{
		name:  "any-right",
		fault: "whoever knows a handle may do anything there",
		in:    "btl",
		old:   "$to.rights&$need != $need",
		new:   "$to.rights&$need == 0 && $to.rights != 0",
		test:  "./btl -run TestRemoteRefused",
	},
	{
		name:  "anybody",
		fault: "a region that is for one peer is for all",
		in:    "btl",
		old:   "$to.only != 0 && $to.only != $ep.tag",
		new:   "$to.only != 0 && $ep.tag == 0",
		test:  "./btl -run TestRemoteRefused",
	},
	{
		name:  "read-after-close",
		fault: "a region that is withdrawn is read to the end by gets under way",
		in:    "btl",
		old:   "$r.endReads()",
		new:   "_ = $r.endReads",
		test:  "./test/sim -run TestSeeds",
	},
	{
		name:  "fence-answers",
		fault: "a fence does not wait for the answers to gets",
		in:    "btl",
		old:   "$f.fence && $ep.asks.waiting > 0",
		new:   "$f.fence && $ep.asks.waiting < 0",
		test:  "./btl -run TestFence",
	},
	{
		name:  "fence-nothing",
		fault: "a fence is over at once",
		in:    "btl",
		old:   "int32($f.fence-$ep.fencesMet) > 0",
		new:   "$f.fence < $ep.fencesMet-$ep.fencesMet",
		test:  "./btl -run TestFence",
	},
	{
		name:  "fence-answer-waits",
		fault: "an answer waits for this side's own fence",
		in:    "btl",
		old:   "$f.fence = $ep.fencesMet",
		new:   "$f.fence = $ep.fences",
		test:  "./test/sim -run TestSeeds",
	},
	{
		name:  "goodbye-before-answers",
		fault: "a goodbye does not wait for the answers to gets",
		in:    "btl",
		old:   "counts.confirm.first == nil && $ep.asks.waiting == 0",
		new:   "$ep.counts.confirm.first == nil",
		test:  "./btl -run TestRemoteEnds",
	},
	{
		name:  "answer-never-missed",
		fault: "a peer that dies before it answers is not asked whether it is there",
		in:    "btl",
		old:   "$m.pressForAnswer($*_)",
		new:   "false",
		test:  "./btl -run TestRemoteEnds",
	},
}
