package main

// The faults of pieces: ends and beginnings of fragments that share a pack.
var pieceMutations = []mutation{
	{
		name:  "piece-of-another-fragment",
		fault: "two pieces of one pack may be of the same fragment",
		in:    "frag",
		old:   "$h.FragID == $end.FragID",
		new:   "false",
		test:  "./frag -run TestPieceRefuses",
	},
	{
		name:  "piece-in-the-middle",
		fault: "any record of a pack may be a piece",
		in:    "frag",
		old:   "len($p) != len($whole) && len($p) != $n",
		new:   "false",
		test:  "./frag -run TestPieceRefuses",
	},
	{
		name:  "piece-refused-accepted",
		fault: "a pack of which a piece was refused for now counts as received",
		in:    "btl",
		old:   "$m.notAdded($in, $*_)",
		with:  "takeBack($*_)",
		new:   "$m.accepted($in.ep, &$in.Header)",
		test:  "./btl -run TestPieceRefusedForNow",
	},
	{
		name:  "piece-begun-for-nothing",
		fault: "what was begun for a piece of a pack that is not taken stays",
		in:    "btl",
		old:   "$p.takeBack($ep)",
		new:   "",
		test:  "./btl -run TestPieceRefusedForNow",
	},
	{
		name:  "piece-waits-for-itself",
		fault: "memory of a fragment that ends in a pack does not count for the one that begins there",
		in:    "btl",
		old:   "$first = &$p.place",
		new:   "",
		test:  "./btl -run TestPieceTakesTurns",
	},
	{
		name:  "piece-of-the-failed",
		fault: "a piece of a fragment that has failed at its sender begins it again",
		in:    "btl",
		old:   "$p.failed = refuses() && $ep.failedThere($p.FragID)",
		new:   "$p.failed = false",
		test:  "./btl -run TestPieceRefusedForGood",
	},
	{
		name:  "piece-refusal-forgotten",
		fault: "a refused piece is not remembered, so its fragment is never thrown away",
		in:    "btl",
		old:   "$m.refusePieces($in, $tag)",
		new:   "",
		test:  "./btl -run TestPieceRefusedForGood",
	},
}
