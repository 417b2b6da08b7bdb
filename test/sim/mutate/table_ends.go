package main

// The faults of how a connection ends, and of who may take how much.
var endMutations = []mutation{
	{
		name:  "last-word-from-anywhere",
		fault: "a Bye that ends at once counts whatever number it has",
		in:    "btl",
		old:   "!frag.ByeEndsAtOnce($c) || !$ep.mayBeNext($s)",
		new:   "!frag.ByeEndsAtOnce($c)",
		test:  "./btl -run TestEndAtOnce",
	},
	{
		name:  "owner-code-at-once",
		fault: "a Bye with a code of the owner waits for nothing before it",
		in:    "frag",
		old:   "$c != ByeClosed && $c < ByeOwner",
		new:   "$c != ByeClosed",
		test:  "./btl -run TestCloseWith",
	},
	{
		name:  "data-after-bye",
		fault: "a packet counts that has a higher number than a Bye",
		in:    "btl",
		old:   "$ep.byeSeen && $ep.byeSeq.Before($ep.numberOf($h))",
		new:   "$ep.byeSeen && false && $ep.byeSeq.Before($ep.numberOf($h))",
		test:  "./btl -run TestNothingAfterBye",
	},
	{
		name:  "away-not-granted",
		fault: "who has said that it computes is dead like everybody",
		in:    "btl",
		old:   "return $m.cfg.PeerTimeout + $ep.away",
		new:   "return $m.cfg.PeerTimeout + 0*$ep.away",
		test:  "./btl -run TestAway",
	},
	{
		name:  "away-without-bound",
		fault: "a peer gets all the time that it asks for",
		in:    "btl",
		old:   "max(0, min(time.Duration($h.AwayMs)*time.Millisecond, $m.cfg.AwayMax))",
		new:   "max(0, time.Duration($h.AwayMs)*time.Millisecond)",
		test:  "./btl -run TestAway",
	},
	{
		name:  "host-without-bound",
		fault: "one host may open all endpoints",
		in:    "btl",
		old:   "$n > 0 && int($m.crowd.atHost[$h]) >= $n",
		new:   "$n > 1<<30 && int($m.crowd.atHost[$h]) >= $n",
		test:  "./btl -run TestPeersPerHost",
	},
	{
		name:  "answer-longer",
		fault: "a Hello by a channel that nobody has proven is answered with more bytes than it has",
		in:    "btl",
		old:   "hello.Bytes() > askedBytes",
		new:   "false",
		test:  "./btl -run TestAnswerNoLongerThanHello",
	},
	{
		name:  "hello-unpadded",
		fault: "a Hello is shorter than the answer to it, which it therefore does not get",
		in:    "btl",
		old:   "hello.Pad()",
		new:   "_ = hello.Padding",
		test:  "./btl -run TestHelloIsPadded",
	},
}
