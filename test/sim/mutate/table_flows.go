package main

// flowMutations holds faults in the choice of the flow that may send next.
var flowMutations = []mutation{
	{
		name:  "tiny-behind-large",
		fault: "a tiny message waits until the large ones to the same peer are sent",
		in:    "btl",
		old:   "large.queue.first == nil || balance > 0 || !bulk()",
		new:   "large.queue.first == nil || !bulk()",
		test:  "./btl -run TestFairTinyBesideLarge",
	},
	{
		name:  "lowered-behind-notice",
		fault: "what fits a packet no more goes behind a notice that waits behind a later fence",
		in:    "btl",
		old:   "$l.begun() || $l.fence != $f.fence && $e",
		new:   "$l.cursor > 0 || $l.fence != $f.fence && $e",
		test:  "./btl -run TestFencePathLowered",
	},
	{
		name:  "large-fills-window",
		fault: "a large message leaves no place of the window to small ones",
		in:    "btl",
		old:   "min(spareMax, $share)",
		with:  "snd.RoomOf($mtu)",
		new:   "min(0, $share)",
		test:  "./btl -run TestFairTinyBesideLarge",
	},
	{
		name:  "small-unbounded",
		fault: "small messages overtake a large one without end",
		in:    "btl",
		old:   "balance -= $size",
		new:   "balance -= 0 * $size",
		test:  "./btl -run TestFairSmallAndLarge",
	},
	{
		name:  "large-unbounded",
		fault: "a large message does not wait for small ones that are due",
		in:    "btl",
		old:   "$m.quantum() - balance",
		new:   "passBytes",
		test:  "./btl -run TestFairSmall",
	},
	{
		name:  "large-without-buffer",
		fault: "a large message never gets a send buffer while small ones hold all",
		in:    "btl",
		old:   "!takeSeg($ep, &$t) && !borrowFrom($*_)",
		new:   "!takeSeg($ep, &$t)",
		test:  "./btl -run TestFairBuffers",
	},
	{
		name:  "turns-by-packets",
		fault: "endpoints take turns by packets, whatever their size",
		in:    "btl",
		old: `deficit -= $size
$sent += $size
$packets += $n`,
		new: `deficit -= 1000 * $n
$sent += $size
$packets += $n`,
		test: "./btl -run TestFairBytes",
	},
	{
		name:  "newcomer-waits",
		fault: "who has sent little waits for its turn like those that send much",
		in:    "btl",
		old: `if $f.deficit > 0 {
	newFlows.pushBack($f)
} else {
	$*z
}`,
		new: `if $f.deficit > $f.ep.m.quantum() {
	newFlows.pushBack($f)
} else {
	$*z
}`,
		test: "./btl -run TestFairNewcomer",
	},
	{
		name:  "newcomer-for-ever",
		fault: "who sends small messages never waits for its turn",
		in:    "btl",
		old: `if $f.deficit > 0 {
	newFlows.pushBack($f)
} else {
	$*z
}`,
		new: `if $f.deficit > 0 || $f == &$f.ep.small {
	newFlows.pushBack($f)
} else {
	$*z
}`,
		test: "./btl -run TestFairNewcomer",
	},
	{
		name:  "bye-overtakes",
		fault: "the goodbye leaves before what was sent ahead of it",
		in:    "btl",
		old:   "small.queue.first == nil && !pack.open() && snd.Open()",
		new:   "snd.Open()",
		test:  "./btl -run TestFairByeLast",
	},
	{
		name:  "flush-forgets-large",
		fault: "a flush does not wait for large messages in the queue",
		in:    "btl",
		old:   "return flush.Tails[*Fragment]{small.queue.last, large.queue.last}",
		new:   "return flush.Tails[*Fragment]{small.queue.last}",
		test:  "./btl -run TestFairFlushAndClose",
	},
	{
		name:  "credits-never-lapse",
		fault: "what was granted to a peer that is idle or dead stays booked for it",
		in:    "reliability",
		old:   "$c.now.Sub($r.raisedAt) >= creditLapse",
		with:  "unlist($r)",
		new:   "false",
		test:  "./test/sim -run TestSenderBesideOthers",
	},
	{
		name:  "credits-never-let-go",
		fault: "a sender that was idle uses credits that the peer has given to others",
		in:    "reliability",
		old:   "limit = next.Add(uint32(keep))",
		new:   "",
		test:  "./reliability -run TestSenderRests",
	},
	{
		name:  "flush-says-nothing",
		fault: "a flush does not say that the peer has refused what was done",
		in:    "btl",
		old:   "$o.noteFlush($ep, $d.Fn, $d.Err)",
		new:   "$o.noteFlush($ep, $d.Fn, nil)",
		test:  "./btl -run TestContract03FlushTells",
	},
	{
		name:  "descriptors-one-takes-all",
		fault: "one of several endpoints may take the last descriptors",
		in:    "btl",
		old:   "!share.MayHave($ep.descriptors, $left, $most, $alone)",
		new:   "$left <= 0*share.NewcomersShare",
		test:  "./btl -run TestContract07Descriptors",
	},
	{
		name:  "tx-room-one-takes-all",
		fault: "one of several endpoints may take all room of a fabric that keeps sends",
		in:    "btl",
		old:   "min($room, share.MayAdd($ep.counts.held, $free, $depth, $ep.m.peers.Alone()))",
		new:   "min($room, $free+0*share.NewcomersShare, $depth)",
		test:  "./btl -run TestStandsStillLeavesRoom",
	},
	{
		name:  "nothing-left-by-many",
		fault: "peers that stand still, one after the other, leave nothing of what all share",
		in:    "btl/internal/share",
		old:   "$held < $free-$reserve",
		new:   "$held < $free",
		test:  "./btl -run TestSeveralStandStill",
	},
	{
		name:  "who-talks-lives",
		fault: "a peer that owes the acknowledgement of the oldest packet lives as long as it talks",
		in:    "btl/internal/liveness",
		old:   "$now.Sub(max($p.oldestAt, $p.owesAt))",
		new:   "$now.Sub(max($p.heardAt, $p.owesAt))",
		test:  "./btl -run TestContract09SmallPacketsOnly",
	},
	{
		name:  "silent-not-asked",
		fault: "peers that may hold memory in vain are asked for a sign of life as any others",
		in:    "btl/internal/liveness",
		old:   "w.Press()",
		with:  "silentAt",
		new:   "",
		test:  "./btl -run TestSilentHolderIsAsked",
	},
	{
		name:  "refused-keeps-its-credit",
		fault: "a packet for which there was no memory holds a credit until there is some",
		in:    "reliability",
		old:   "$held + refused.count",
		new:   "$held",
		test:  "./reliability -run TestRefusedTakesNoCredit",
	},
	{
		name:  "placeless-goes",
		fault: "a put with a notice does not wait for the earlier one whose place it has",
		in:    "btl",
		old:   "!$f.placeless()",
		new:   "$f != nil",
		test:  "./btl -run TestSmallBesidePlaceless",
	},
	{
		name:  "limits-of-the-ended",
		fault: "who is told a limit too late is kept for ever",
		in:    "btl/queue",
		old:   "if $in := $q.from[$peer]; $in != nil { return $in.taken }",
		new:   "if $in := $q.inbox($peer); $in != nil { return $in.taken }",
		test:  "./btl/queue -run TestLimitOfEnded",
	},
	{
		name:  "naps-end-for-ever",
		fault: "who was awakened while others slept for it naps no more",
		in:    "fabric/shm",
		old:   "$d.hush()",
		with:  "$d.sleeper.sleeping.Load()",
		new:   "$d.bell.Hush()",
		test:  "./fabric/shm -run TestDisarmHearsWake",
	},
	{
		name:  "refused-is-on-its-way",
		fault: "a packet that the peer has no memory for counts as on its way, and as lost later",
		in:    "btl",
		old:   "$ep.snd.NoMemory($*_)",
		new:   "",
		test:  "./btl -run TestContract07SmallBesideRefused",
	},
	{
		name:  "refused-and-more-of-it",
		fault: "a peer that has no memory is sent more of what needs some",
		in:    "btl",
		old:   "$ep.snd.NeedsMemory() && !$f.put",
		new:   "false && !$f.put",
		test:  "./btl -run TestContract07SmallBesideRefused",
	},
	{
		name:  "refused-and-never-asked",
		fault: "when the peer has memory again, the refused packets go on coming one at a time",
		in:    "reliability",
		old:   "$n != $s.next && $r.count > 0",
		new:   "false && $n != $s.next && $r.count > 0",
		test:  "./reliability -run TestNoMemory",
	},
	{
		name:  "refused-younger-first",
		fault: "who acknowledges in order is asked for a packet behind one it has refused since",
		in:    "reliability",
		old:   "$r.asked == $p.seq || !$a.selective && $e",
		new:   "$r.asked == $p.seq",
		test:  "./reliability -run TestNoMemoryForAnOlderOne",
	},
	{
		name:  "refused-bytes-count",
		fault: "the bytes of a packet that was refused for want of memory count as on their way",
		in:    "reliability",
		old:   "s.bytes -= int(p.refusedBytes)",
		new:   "s.bytes -= 0",
		test:  "./reliability -run TestNoMemory",
	},
	{
		name:  "announced-is-taken",
		fault: "a fragment takes the memory that is announced with its first packet",
		in:    "frag",
		old:   "min($class, classOf(uint32(min($*_))))",
		new:   "$class",
		test:  "./frag -run TestGrowAnnounced",
	},
	{
		name:  "all-grow-into-the-reserve",
		fault: "several fragments grow into the memory that is kept for one",
		in:    "frag",
		old:   "$p.favourite == $m || $p.favourite == nil && $inOrder",
		new:   "$inOrder",
		test:  "./frag -run TestGrowToTheEnd",
	},
	{
		name:  "trip-of-first",
		fault: "the first round trip counts, though it waited for processors or in a queue",
		in:    "btl/internal/path",
		old:   "$t.answers == tripFirst",
		new:   "true",
		test:  "./btl/internal/path -run TestTripOfSeveral",
	},
}
