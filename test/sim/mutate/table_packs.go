package main

// packMutations holds faults of Packs, which are packets of several small fragments.
var packMutations = []mutation{
	{
		name:  "pack-delivered-untested",
		fault: "only the first record of a pack is tested for a handler before all are delivered",
		in:    "btl/internal/receive",
		old: `if isPiece || $rx.handlers[tag] == nil {
	break
}
at = end`,
		new: `if isPiece || $rx.handlers[tag] == nil {
	break
}
at = max(end, len(payload))`,
		test: "./test/sim/scenario -run TestScenarios/pack-nack",
	},
	{
		name:  "pack-wrong-records-taken-out",
		fault: "of a refused pack the records are kept that were refused, and the others taken out",
		in:    "btl/internal/peer",
		old:   "$tag != stripTag",
		new:   "$tag == stripTag",
		test:  "./test/sim/scenario -run TestScenarios/pack-nack",
	},
	{
		name:  "pack-rest-not-whole",
		fault: "of a refused pack only the first of the other records is sent again",
		in:    "btl/internal/peer",
		old: `if $tag, _, $rest = frag.NextRecord($rest); $tag != stripTag {
	$n += copy($*args)
}`,
		new: `if $tag, _, $rest = frag.NextRecord($rest); $tag != stripTag && $n == 0 {
	$n += copy($*args)
}`,
		test: "./test/sim/scenario -run TestScenarios/pack-nack",
	},
	{
		name:  "pack-all-records-fail",
		fault: "the refusal of some records fails the messages of all",
		in:    "btl/internal/peer",
		old:   "$f.tag == $tag && $f.Err == nil",
		new:   "$f.Err == nil",
		test:  "./test/sim/scenario -run TestScenarios/pack-nack",
	},
	{
		name:  "pack-records-fail-silently",
		fault: "the messages of refused records end well",
		in:    "btl/internal/peer",
		old:   "$f.tag == $tag && $f.Err == nil",
		new:   "$f.tag == $tag && $f.Err != nil",
		test:  "./test/sim/scenario -run TestScenarios/pack-nack",
	},
	{
		name:  "pack-record-length",
		fault: "a record may be one byte longer than what is left of its packet",
		in:    "frag",
		old: `if $n > len($p) {
	return ErrLength
}`,
		new: `if $n--; $n > len($p) {
	return ErrLength
}`,
		test: "./test/sim/scenario -run TestScenarios/pack-not-packets",
	},
	{
		name:  "pack-forgotten-by-flush",
		fault: "a flush does not wait for the open pack",
		in:    "btl/internal/peer",
		old: `if pack.Open() {
	$next++
}`,
		new:  "",
		test: "./test/sim/scenario -run TestScenarios/pack-flush",
	},
	{
		name:  "pack-leaked-at-abort",
		fault: "the open pack of an endpoint that ends is forgotten, with its buffer and its messages",
		in:    "btl/internal/peer",
		old:   "failPack($ep, $err)",
		new:   "",
		test:  "./test/sim/scenario -run TestScenarios/pack-abort",
	},
	{
		name:  "pack-lone-delayed",
		fault: "a lone message waits in a pack until the next pass",
		in:    "btl/internal/peer",
		old:   "sentIn != $epoch",
		with:  "!bursts",
		new:   "sentIn > $epoch",
		test:  "./test/sim/scenario -run TestScenarios/pack-lone",
	},
	{
		name:  "pack-bursts-for-ever",
		fault: "after a burst every message waits for the pass, also one that stayed alone",
		in:    "btl/internal/peer",
		old:   "bursts = $p.Records() > 1",
		new:   "bursts = bursts || $p.Records() > 1",
		test:  "./btl -run TestPackBurstAfterBurst",
	},
	{
		name:  "pack-lone-after-burst",
		fault: "after a burst the next message waits, also when nothing is in flight any more",
		in:    "btl/internal/peer",
		old:   "!bursts || !busy()",
		new:   "!bursts",
		test:  "./btl -run TestPackBurstAfterBurst",
	},
	{
		name:  "pack-behind-polls",
		fault: "a pack that is open when a pass begins waits for its polls",
		in:    "btl",
		old:   "Packs > 0",
		with:  "SendPacks()",
		new:   "Packs < 0",
		test:  "./btl -run TestPackBeforePolls",
	},
	{
		name:  "pack-acknowledged-early",
		fault: "a pack is acknowledged by the answer to its first record",
		in:    "btl/internal/receive",
		old:   "$rc.piecesTaken = 0",
		new: `$rc.piecesTaken = 0
$rc.accepted(in.ep, &in.Header)
in.Header.Seq++ // acceptLast must not accept the same number again`,
		test: "./btl -run TestPackAnswers",
	},
	{
		name:  "pack-too-long",
		fault: "the header of the record that is added does not count for the size of a pack",
		in:    "btl/internal/pack",
		old:   "int(bytes)+RecordHeaderBytes+$size <= $max",
		new:   "int(bytes)+$size <= $max",
		test:  "./test/sim/scenario -run TestScenarios/pack-exact",
	},
	{
		name:  "pack-first-tag-lost",
		fault: "the first record of a pack gets the tag of the second",
		in:    "btl/internal/pack",
		old: `if $one {
	$*a
	PutRecord($b[$h:], $p.tag, $first)
	$*z
}
$end += uint32(PutRecord($c, $tag, $data))`,
		new: `if $one {
	$*a
	PutRecord($b[$h:], $tag, $first)
	$*z
}
$end += uint32(PutRecord($c, $tag, $data))`,
		test: "./test/sim/scenario -run TestScenarios/pack-nack-record",
	},
	{
		name:  "pack-chain-forgotten",
		fault: "of the messages in an acknowledged pack only the first one ends",
		in:    "btl/internal/peer",
		old:   "$m.chainEnded($f, nil)",
		new:   "$m.chunksEnded($f, 1)",
		test:  "./test/sim/scenario -run TestScenarios/pack-burst",
	},
	{
		name:  "pack-without-number",
		fault: "a pack is taken in whatever its number is",
		in:    "frag",
		old:   "return $k == KindFrag || $k == KindChunk || $k == KindPack",
		new:   "return $k == KindFrag || $k == KindChunk",
		test:  "./frag -run TestHasSeq",
	},
	{
		name:  "train-waits-for-more",
		fault: "packets of a burst that would make a train wait in the batch for the next pass",
		in:    "btl/internal/peer",
		old:   "len($c.Batch) == $tx.companyOn($p.ep, $c)",
		new:   "len($c.Batch) == port.BatchMax",
		test:  "./btl -run TestBurstOfWholePackets",
	},
	{
		name:  "burst-out-of-turn",
		fault: "a burst of larger messages goes before those of others that wait for their turn",
		in:    "btl/internal/peer",
		old:   "$size > $ep.MTU() || !$unbatched && $m.Sched.Waiting() > 0",
		new:   "$size > $ep.MTU()",
		test:  "./btl -run TestBurstOfWholePackets",
	},
	{
		name:  "burst-stands",
		fault: "the time for which its owner lets a burst stand in the batch counts as the path's",
		in:    "btl/internal/peer",
		old:   "$ep.Snd.Leaves($*_)",
		new:   "",
		test:  "./btl -run TestBurstOfWholePacketsStands",
	},
	{
		name:  "burst-behind-fast-receive",
		fault: "a burst stands in the batch for another pass if that finds a message",
		in:    "btl",
		old:   "!$m.fastLast && len($m.all.Port.Data.Batch) == 0",
		new:   "!$m.fastLast",
		test:  "./btl -run TestBurstOfWholePacketsStands",
	},
}
