package main

// The faults in the numbers of packets, in what is answered to a Ping, and in credits in bytes.
var numberMutations = []mutation{
	{
		name:  "credit-bytes-ignored",
		fault: "credits in bytes are not kept to",
		in:    "reliability",
		old:   "$s.bytesMax = max($grantedBytes, 1)",
		new:   "_ = $grantedBytes",
		test:  "./test/stranger -run TestCreditBytes",
	},
	{
		name:  "small-unbounded-bytes",
		fault: "who is granted more packets than have room when full is not bounded in bytes",
		in:    "reliability",
		old:   "max((int($full)-1)*$c.bytesPerPlace, 1)",
		new:   "NoBytesBound",
		test:  "./reliability -run TestSmall",
	},
	{
		name:  "small-forgets-bound",
		fault: "the bound in bytes ends while packets are left that were granted for small ones",
		in:    "reliability",
		old:   "($l.small || $l.bounded) && $packets > $full",
		new:   "$l.small && $packets > $full",
		test:  "./reliability -run TestSmall",
	},
	{
		name:  "any-number-of-last",
		fault: "a Sack may tell any number that was sent of the packet which arrived last",
		in:    "btl",
		old:   "frag.NumberOf($b) == $number",
		new:   "frag.NumberOf($b) != 0",
		test:  "./test/stranger -run TestForgedAcks",
	},
	{
		name:  "credit-bytes-of-old",
		fault: "an ACK that grants fewer packets than another one says how many bytes",
		in:    "reliability",
		old:   "$grantedBytes == $s.bytesMax || $ack.Add(1 + max(1, uint32($credit))).Before($s.limit)",
		new:   "$grantedBytes == $s.bytesMax",
		test:  "./reliability -run TestBytesBound",
	},
	{
		name:  "copy-keeps-number",
		fault: "a packet that is sent again has the number that it had",
		in:    "btl",
		old:   "frag.SetNumber($b, $ep.numbers.take($m, viaData, 1))",
		new:   "_ = $b",
		test:  "./test/sim/swarm -run TestJudgeIsContent",
	},
	{
		name:  "pong-for-pong",
		fault: "a Pong is answered as a Ping is",
		in:    "btl",
		old:   "$m.onPong($in)",
		new:   "$m.onPing(&$m.data, $in)",
		test:  "./test/sim/swarm -run TestJudgeIsContent",
	},
	{
		name:  "pong-larger",
		fault: "a Pong is larger than the least Ping",
		in:    "btl",
		old:   "$n := frag.EncodePing($b, &$h, frag.NonceOf($in.payload), frag.PongBytes)",
		new:   "$n := frag.EncodePing($b, &$h, frag.NonceOf($in.payload), frag.PongBytes+64)",
		test:  "./test/sim/swarm -run TestJudgeIsContent",
	},
}
