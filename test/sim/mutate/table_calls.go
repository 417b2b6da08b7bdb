package main

// The faults in what stands on btl.Runner.
var callMutations = []mutation{
	{
		name:  "queue-without-bound",
		fault: "a peer may send more than its queue holds",
		in:    "btl/queue",
		old:   "$in.received+cost(len($body)) > $in.taken+$q.cfg.Bytes",
		new:   "$in.received+cost(len($body)) < $in.taken",
		test:  "./btl/queue -run TestQueueHostile",
	},
	{
		name:  "queue-sender-does-not-wait",
		fault: "a queue's sender does not look at its limit",
		in:    "btl/queue",
		old:   "$s.sent+$w.cost > $s.limit",
		new:   "$s.sent < 0",
		test:  "./btl/queue -run TestQueueStopsOne",
	},
	{
		name:  "queue-given-up-counts",
		fault: "a message that was given up takes room in its queue",
		in:    "btl/queue",
		old:   "if $s.waiting[$i] == $w { $*_ }",
		new:   "if $s.waiting[$i] == nil { break }",
		test:  "./btl/queue -timeout 20s -run TestQueueEnds",
	},
	{
		name:  "cancel-lost",
		fault: "a server for which there is no room now is not told that a call is cancelled",
		in:    "btl/call",
		old:   "if $untold && $n.begins() { $*_ }",
		new:   "_ = $untold",
		test:  "./btl/call -run TestCancelWithoutRoom",
	},
	{
		name:  "stream-out-of-turn",
		fault: "a chunk of a stream is read before its turn",
		in:    "btl/call",
		old:   "if $next == $seq { return nil }",
		new:   "if $next == $seq || $seq > 0 { return nil }",
		test:  "./btl/call -run TestStream$",
	},
	{
		name:  "close-waits-for-ever",
		fault: "a Node that closes waits for handlers as long as they take",
		in:    "btl/call",
		old:   "<-$ctx.Done()",
		with:  "$n.hush()",
		new:   "<-make(chan struct{})",
		test:  "./btl/call -timeout 20s -run TestCloseLeavesHandlers",
	},
}
