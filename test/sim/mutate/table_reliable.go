package main

// The faults of connections that leave it to their network that nothing is lost.
var reliableMutations = []mutation{
	{
		name:  "reliable-not-counted",
		fault: "a packet of a reliable connection is taken in although one before it is missing",
		in:    "btl",
		old:   "Seq != rcv.Expected()",
		new:   "false",
		test:  "./btl -run TestReliableLost",
	},
	{
		name:  "reliable-loss-kept-secret",
		fault: "a packet behind a lost one is dropped, and nobody told",
		in:    "btl",
		old:   "endTelling($_, $_, EventFailed, Errorf($s, ErrLost, $why))",
		new:   "_ = Errorf($s, ErrLost, $why)",
		test:  "./test/sim/scenario -run TestScenarios/reliable-lost",
	},
	{
		name:  "reliable-ack-of-unsent",
		fault: "a confirmation of packets that were not sent is believed",
		in:    "btl",
		old:   "Flags&FlagAck != 0 && !snd.Plausible(Ack)",
		with:  "rcv.Credited()",
		new:   "false",
		test:  "./test/sim/scenario -run TestScenarios/reliable-ack-of-unsent",
	},
	{
		name:  "reliable-guessed",
		fault: "who relies on its network takes for granted that its peer does",
		in:    "btl",
		old: `$common := $m.features() & $hello.Features
$ep.counted = $common&FeatureReliable != 0`,
		new: `$common := $m.features() & $hello.Features
$ep.counted = $m.features()&FeatureReliable != 0`,
		test: "./btl -run TestReliableMixedPair",
	},
	{
		name:  "reliable-no-credit-limit",
		fault: "a reliable connection is used without credits once it had some",
		in:    "reliability",
		old:   "$s.raise($now, $ack.Add(1+max(1, uint32($credit))))",
		new:   "$s.raise($now, $ack.Add(1<<20 + uint32($credit)))",
		test:  "./reliability -run TestCount",
	},
	{
		name:  "reliable-window",
		fault: "the window bounds what a reliable connection sends",
		in:    "btl",
		old:   "snd.Unbind()",
		new:   "",
		test:  "./btl -run TestReliableSmallWindow",
	},
	{
		name:  "reliable-credits-of-hello",
		fault: "a reliable connection is used before the first ACK of the peer",
		in:    "btl",
		old: `$s.Unbind()
return`,
		new: `$s.Unbind()
$s.Grant(hello.Credit)
return`,
		test: "./btl -run TestReliableFirstAck",
	},
	{
		name:  "called-again-not-cancelled",
		fault: "who aborts and connects again keeps what waits in the fabric for the old end",
		in:    "btl",
		old:   "$m.giveUp(n.Command)",
		new:   "_ = $m.giveUp",
		test:  "./btl -run TestStandsStillIsCalledAgain",
	},
	{
		name:  "reliable-missed-credits",
		fault: "who has dropped the first credits of a reliable connection does not ask for them",
		in:    "btl",
		old:   "$ep.counts.missed && $ep.owed()",
		new:   "false",
		test:  "./btl -run TestReliableMissedCredits",
	},
	{
		name:  "reliable-buffer-before-completion",
		fault: "the buffer of a packet that nothing is heard of any more is free before it has left",
		in:    "btl",
		old: `$m.tx[$p.seg] = txRelease
$ep.counts.held++`,
		new: `$m.tx[$p.seg] = txRelease
$ep.counts.held++
$m.giveSeg($ep, $p.seg)`,
		test: "./btl -run TestReliableExchange",
	},
	{
		name:  "reliable-refusal-untold",
		fault: "a refused packet that asks is confirmed without a Nack",
		in:    "btl",
		old: `if $h.Seq != 0 || $h.Kind != $chunk {
	nacks = $more
}`,
		new: `if false {
	nacks = $more
}`,
		test: "./btl -run TestReliableRefusals",
	},
	{
		name:  "reliable-memory-never-again",
		fault: "a fragment for which the peer had no memory is not sent again",
		in:    "btl",
		old:   "sendAnew($ep, $f)",
		new:   "",
		test:  "./btl -run TestReliableMemory",
	},
	{
		name:  "reliable-anew-at-once",
		fault: "a fragment for which the peer had no memory is sent again without a pause",
		in:    "btl",
		old:   "pauseAnew($ep)",
		new:   "",
		test:  "./btl -run TestReliableAnewPauses",
	},
	{
		name:  "reliable-packs-always-early",
		fault: "over a reliable fabric the packs of a stream leave as early as those behind an answer",
		in:    "btl",
		old:   "$s.showSince != $next",
		new:   "true",
		test:  "./btl -run TestReliablePacks",
	},
	{
		name:  "reliable-bye-overtakes",
		fault: "the goodbye does not wait for what may have to be sent again",
		in:    "btl",
		old:   "return confirm.first == nil && $_",
		new:   "return true",
		test:  "./btl -run TestReliableMemory",
	},
	{
		name:  "reliable-chunk-of-another",
		fault: "chunks of a reliable connection may come in any order",
		in:    "btl",
		old:   "$h.OffsetBytes != 0",
		with:  "FragID != arriving",
		new:   "$h.OffsetBytes != 0 && $h.Seq == 1",
		test:  "./btl -run TestReliableChunkMissing",
	},
	{
		name:  "reliable-never-asks",
		fault: "nobody asks for the confirmation of what is not waited for",
		in:    "btl",
		old: `ask($ep)
watch($ep, $d)`,
		new:  "watch($ep, $d)",
		test: "./test/sim/scenario -run TestScenarios/reliable-alive",
	},
	{
		name:  "reliable-superseded-starts-anew",
		fault: "a superseded reliable connection forgets how often it has asked in vain",
		in:    "btl",
		old: `if !watches() {
	probes = 0
}`,
		new:  "probes = 0",
		test: "./btl -run TestReliableSuperseded",
	},
	{
		name:  "reliable-drained-early",
		fault: "drained, although the confirmation of a goodbye has not left yet",
		in:    "btl",
		old:   "pending()",
		with:  "state != stateLingering",
		new:   "len(m.cmd.batch) > 0",
		test:  "./btl -run TestReliableDrained",
	},
	{
		name:  "fragment-confirmed-late",
		fault: "over a reliable fabric a fragment in chunks is confirmed after the delay of ACKs",
		in:    "btl",
		old:   "$h.Kind == frag.KindChunk || $h.PayloadLen >= gatherBytesMin",
		new:   "$h.PayloadLen >= gatherBytesMin",
		test:  "./btl -run TestReliableFragmentConfirmed",
	},
	{
		name:  "lent-confirmed-late",
		fault: "over a reliable fabric a message of lent memory is confirmed after the delay of ACKs",
		in:    "btl",
		old:   "$h.Kind == frag.KindChunk || $h.PayloadLen >= gatherBytesMin",
		new:   "$h.Kind == frag.KindChunk",
		test:  "./btl -run TestReliableLent",
	},
	{
		name:  "reliable-rests-past-ack",
		fault: "behind a message that was answered passes rest although credits are to be renewed",
		in:    "btl",
		old:   "resumeUntil.Min($m.ackDeadline())",
		new:   "resumeUntil",
		test:  "./btl -run TestShmRestsOnAcks",
	},
	{
		name:  "reliable-rests-past-call",
		fault: "behind a message that was answered passes rest although a handler has sent more",
		in:    "btl",
		old:   "restUntil, resumeUntil = 0, 0",
		new:   "restUntil = 0",
		test:  "./btl -run TestShmRestsOnMore",
	},
	{
		name:  "takes-of-another-end",
		fault: "what an end of the peer has said counts for the next one, which drops a question",
		in:    "btl",
		old:   "$ep.counts.takes, $ep.counts.missed = false, false",
		new:   "_ = 0",
		test:  "./btl -run TestBeginsAgainUnconfirmed",
	},
	{
		name:  "slow-passes-deaf",
		fault: "who makes few passes does not have the fabric look for new peers",
		in:    "btl",
		old:   "if m.gap >= tendGap {\n\t$m.port.tend($*_)\n}",
		new:   "",
		test:  "./btl -run TestShmSlowPasses",
	},
	{
		name:  "shm-ring-untouched",
		fault: "each page of a ring is made when a message comes there first",
		in:    "fabric/shm",
		old:   "n := min(touchBytes, $rest)",
		new:   "n := min(4096, $rest)",
		test:  "./fabric/shm -run TestRingTouched",
	},
	{
		name:  "answered-keeps-sends",
		fault: "what waits in the network for a peer that was given up stays, for it was sent a Reject",
		in:    "btl",
		old:   "if $cancels {\n\t$p.forgetAnswers($*_)\n}",
		new:   "_ = $cancels",
		test:  "./btl -run TestOnePeerStandsStill$",
	},
}
