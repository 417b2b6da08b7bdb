package main

// The faults in the numbers of packets, and in what is answered to a Ping.
var numberMutations = []mutation{
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
