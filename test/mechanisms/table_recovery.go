package main

const (
	recoveryDir = "reliability"

	streamOne  = "1ms 1G queue 1 loss 1% reorder 0%"
	streamLong = "20ms 1G queue 0.25 loss 0% reorder 0%"
)

// ackMechanisms are mechanisms of ACKs and credits.
var ackMechanisms = []mechanism{
	{
		name:  "ACKs that ripen",
		parts: []string{"btl/internal/owed: Ledger.Ripen", "reliability: Receiver.Ripe"},
		off:   []change{{in: "btl", old: "if !found {\nRipen($*_)\n}", new: ""}},
		trials: []trial{
			{
				"messages of 64 KiB, one in flight, udp, MTU 1500",
				"--provider udp --test bw --size 64K --window 1 --mtu 1500", "ns/op",
			},
		},
	},
	{
		name:  "ACKs wait for data",
		parts: []string{"reliability: Receiver.ackDue Receiver.Accept", "btl/internal/owed/owed_acks.go"},
		off: []change{{
			in: recoveryDir, old: "accept($a, $b, AckDelay, $c)", new: "accept($a, $b, 0*$c.AckDelay, $c)",
		}},
		trials: []trial{
			{"messages of 8 B to and fro", "sim ping-pong", "packets/op"},
			{"single messages, udp", "--provider udp --test lat --size 8", "p50-ns"},
			{
				"single messages, Runner, udp",
				"--provider udp --layer runner --wait adaptive --test lat --size 8", "p50-ns",
			},
		},
	},
	{
		name: "lone answers",
		parts: []string{
			"reliability/lone.go", "btl/internal/peer: Links.isLoneReply",
		},
		off: []change{{in: peerDir, old: "MayWait && isLoneReply($*_)", new: "false"}},
		trials: []trial{
			{"a request every 10 ms", "sim rare requests", "packets/op"},
			{
				"messages with pauses of 2 ms, Runner, udp",
				"--provider udp --layer runner --wait adaptive --test lat --size 8 --gap 2ms", "p50-ns",
			},
		},
	},
	{
		name:  "sooner ACKs for senders that wait",
		parts: []string{"reliability/turns.go", "btl/internal/owed: Ledger.NoteLull"},
		off:   []change{{in: peerDir, old: "Pace($*_)", new: ""}},
		trials: []trial{
			{
				"stream of 2000 B messages, udp, MTU 1500",
				"--provider udp --test bw --size 2000 --mtu 1500", "ns/op",
			},
		},
	},
	{
		name: "more credits than places (overcommit)",
		parts: []string{
			"reliability/stretch.go", "btl/internal/probe/trips.go",
			"btl/internal/peer: Overcommit Overcommit.Open Overcommit.TendOvercommit",
		},
		off: []change{{in: peerDir, old: "Stretch()", new: ""}},
		trials: []trial{
			{"stream over 40 ms to a socket buffer of 138 packets", "sim small buffer", "MB/s"},
		},
	},
	{
		name: "pauses after refusals for memory",
		parts: []string{
			"btl/internal/backoff", "btl/internal/peer/chunk_backoff.go",
			"btl/internal/peer: Sent.resendWhole",
		},
		off: []change{
			{in: "btl/internal/backoff", old: "const Least = $_ * $_", new: "const Least = 1"},
			{in: "btl/internal/backoff", old: "const Most = $_ * $_", new: "const Most = 1"},
		},
		trials: []trial{
			{"eight large senders to memory for two messages, no loss", "sim little memory", "packets"},
		},
	},
}

// lossMechanisms are mechanisms that find and repair losses.
var lossMechanisms = []mechanism{
	{
		name:  "probes (TLP)",
		parts: []string{"reliability: path.probe adaptive.timeout adaptive.setWait"},
		off: []change{
			{in: recoveryDir, old: "$p := $r.ProbeTimeoutMin", new: "$p := $r.ResendTimeoutMin"},
			{in: recoveryDir, old: "$t * $p.probe()", new: "$t * $p.wait()"},
		},
		trials: []trial{
			{"the last packet of a message is lost", "sim lost tail", "us/op"},
			{"messages of 8 B, loss 1 %", "sim " + streamOne, "p99.9-us"},
		},
	},
	{
		name:  "patience after a pause",
		parts: []string{"reliability: adaptive.posted adaptive.setWait"},
		off:   []change{{in: recoveryDir, old: "$a.rouses = true\n$a.setWait()", new: ""}},
		trials: []trial{
			{"a message every 100 ms to a peer that sleeps", "sim sleepy peer", "packets/op"},
		},
	},
	{
		name:  "adaptive reordering window",
		parts: []string{"reliability: adaptive.reorderWindow adaptive.onDuplicates adaptive.endRound"},
		off: []change{{
			in: recoveryDir, old: "min(max($b/4, $s+$s/4)<<$_, $w)", new: "min($b/4, $w)",
		}},
		trials: []trial{
			{"a fifth of the packets is late", "sim 1ms 1G queue 1 loss 0% reorder 20%", "MB/s"},
			{"the same: spurious packets", "sim 1ms 1G queue 1 loss 0% reorder 20%", "spurious-%"},
			{"20 ms, a fifth is late", "sim 20ms 1G queue 1 loss 0% reorder 20%", "MB/s"},
		},
	},
	{
		name:  "a loss that was none is forgiven",
		parts: []string{"reliability: congestion.blame congestion.excuse"},
		off:   []change{{in: recoveryDir, old: "excuse($*_)", new: ""}},
		trials: []trial{
			{"a fifth of the packets is late", "sim 1ms 1G queue 1 loss 0% reorder 20%", "MB/s"},
			{"20 ms, 5 % late", "sim 20ms 1G queue 1 loss 0% reorder 5%", "MB/s"},
			{"10 Gbit/s, a fifth is late", "sim 1ms 10G queue 1 loss 0% reorder 20%", "MB/s"},
			{"20 ms, long queue, a fifth is late", "sim 20ms 1G queue 4 loss 0% reorder 20%", "MB/s"},
		},
	},
	{
		name:  "lost retransmissions are found",
		parts: []string{"reliability: adaptive.onResentArrived"},
		off: []change{{
			in: recoveryDir, old: "latestArrived[Data].seenAt == $d.seenAt || resentArrived.at > $d.at",
			new: "true",
		}},
		trials: []trial{
			{"stream, loss 5 %", "sim 1ms 1G queue 1 loss 5% reorder 0%", "MB/s"},
			{"the last 20 packets of a message are lost", "sim lost end", "us/op"},
			{"a message while the path is cut for 200 ms", "sim message cut", "ms/op"},
		},
	},
	{
		name:   "sweep after a cut",
		needed: "without it both ends of a cut path can wait (TestRegionCloseUnderWay)",
		parts:  []string{"reliability: adaptive.heardAgain"},
		off:    []change{{in: recoveryDir, old: "heardAgain($*_)", new: ""}},
		trials: []trial{
			{"stream, path cut for 500 ms", "sim path cut", "ms/op"},
			{"a message while the path is cut for 200 ms", "sim message cut", "ms/op"},
		},
	},
	{
		name:  "timers of a batch that stood",
		parts: []string{"btl/internal/peer: Buffers.LeaveLate", "reliability: Sender.Leaves"},
		off:   []change{{in: "btl", old: "LeaveLate()", new: ""}},
		trials: []trial{
			{"bursts of a process that stands for 3 ms", "sim sender pauses", "us/op"},
		},
	},
}

// windowMechanisms are mechanisms of the congestion window.
var windowMechanisms = []mechanism{
	{
		name:  "pacing",
		parts: []string{"reliability/adaptive_pacer.go", "reliability: adaptive.pace"},
		off: []change{{
			in: recoveryDir, old: "if $_ {\n$p.on = false\nreturn\n}", new: "$p.on = false\nreturn",
		}},
		trials: []trial{
			{"2 MB on a new connection, 20 ms, short queue", "sim short transfer", "ms/op"},
			{"stream, 20 ms, short queue", "sim " + streamLong, "MB/s"},
			{"stream, 1 ms, short queue", "sim 1ms 1G queue 0.25 loss 0% reorder 0%", "MB/s"},
			{"stream, 50 us, 10 Gbit/s", "sim 50µs 10G queue 4 loss 0.1% reorder 0%", "MB/s"},
		},
	},
	{
		name:  "dips",
		parts: []string{"reliability: congestion.dip congestion.beginDip congestion.hasten"},
		off:   []change{{in: recoveryDir, old: "met && rounds >= dipAfter", new: "false"}},
		trials: []trial{
			{"16 streams, 1 ms: wait in the queue", "sim 16 flows", "queue-us"},
			{"16 streams, 1 ms: fairness", "sim 16 flows", "Jain"},
			{"two streams, 20 ms", "sim 20ms 1G queue 1 loss 0% reorder 0%", "Jain"},
		},
	},
	{
		name:   "dips with others",
		needed: "without it many senders of large messages share a line unfairly (TestManySenders)",
		parts:  []string{"reliability: congestion.drains"},
		off: []change{{
			in: recoveryDir, old: "!slow && !compete && rounds >= dipLeast",
			new: "false && rounds >= dipLeast",
		}},
		trials: []trial{
			{"16 streams, 1 ms: wait in the queue", "sim 16 flows", "queue-us"},
			{"16 streams, 1 ms: fairness", "sim 16 flows", "Jain"},
			{"two streams, 20 ms", "sim 20ms 1G queue 1 loss 0% reorder 0%", "Jain"},
		},
	},
	{
		name:  "slow start ends at what arrived",
		parts: []string{"reliability: congestion.fit"},
		off: []change{{
			in: recoveryDir, old: "$c.overshot = $_ >= fitLeast", new: "$c.overshot = false",
		}},
		trials: []trial{
			{"2 MB on a new connection, 20 ms, short queue", "sim short transfer", "ms/op"},
			{"stream, 20 ms, long queue", "sim 20ms 1G queue 4 loss 0% reorder 0%", "MB/s"},
			{"stream, loss 1 %, 5 % late", "sim 1ms 1G queue 1 loss 1% reorder 5%", "MB/s"},
			{"stream, loss 5 %, a fifth is late", "sim 1ms 1G queue 1 loss 5% reorder 20%", "MB/s"},
		},
	},
	{
		name:  "beside senders that fill the queue",
		parts: []string{"reliability: congestion.press"},
		off: []change{{
			in: recoveryDir, old: "least > 3*$_ && window <= 2*windowLeast", new: "false",
		}},
		trials: []trial{
			{"stream beside one without congestion control", "sim beside a full queue", "MB/s"},
		},
	},
	{
		name:  "delay of a program on the path (wobble)",
		parts: []string{"reliability/adaptive_wobble.go"},
		off: []change{{
			in: recoveryDir, old: "max(share-wobbleLeast, 0)", new: "0*share",
		}},
		trials: []trial{
			{"stream through a tunnel that runs now and then", "sim tunnel", "MB/s"},
		},
	},
	{
		name:  "jitter is no queue",
		parts: []string{"reliability: path.vary"},
		off:   []change{{in: recoveryDir, old: "vary($*_)", new: ""}},
		trials: []trial{
			{"stream, each packet up to 3 ms late", "sim delay varies", "MB/s"},
			{"stream, a fifth of the packets is late", "sim 1ms 1G queue 1 loss 0% reorder 20%", "MB/s"},
		},
	},
	{
		name: "unread time is no queue",
		parts: []string{
			"reliability: Receiver.Unread", "btl/internal/port: Channel.NotePolled",
		},
		off: []change{{
			in: recoveryDir, old: "$s != nil && $s.Unread > unreadLeast", new: "$s != nil && false",
		}},
		trials: []trial{
			{"stream to a process that receives only every 2 ms", "sim rare receiver", "MB/s"},
		},
	},
	{
		name:  "usual loss of a path",
		parts: []string{"reliability: congestion.judge"},
		off: []change{{
			in: recoveryDir, old: "testing && $l+judgeLost > $b-$b/4 && $s < shareMost", new: "false",
		}},
		trials: []trial{
			{"stream, loss 5 %", "sim 1ms 1G queue 1 loss 5% reorder 0%", "MB/s"},
			{"stream, loss 1 %, short queue", "sim 1ms 1G queue 0.25 loss 1% reorder 0%", "MB/s"},
			{"stream, 20 ms, loss 1 %", "sim 20ms 1G queue 1 loss 1% reorder 0%", "MB/s"},
		},
	},
	{
		name:  "faster growth after rounds without congestion",
		parts: []string{"reliability: congestion.step"},
		off:   []change{{in: recoveryDir, old: "window > peak+peak/4", new: "false"}},
		trials: []trial{
			{"a path becomes ten times as fast", "sim path grows", "MB/s"},
		},
	},
}

// neededMechanisms stay whatever they bring.
var neededMechanisms = []mechanism{
	{
		name: "packets are held back",
		parts: []string{
			"reliability/withheld.go", "btl/internal/peer: Buffers.withholdOne Buffers.withholdable",
			"btl/internal/numbers: Source.Due Source.Withhold withholding",
		},
		off: []change{{
			in: recoveryDir, old: "$a != nil && !fixed && !withholds && untested >= untestedRounds",
			new: "$a == nil && $a != nil",
		}},
		needed: "finds peers without selective ACKs that acknowledge what they have not received",
		trials: []trial{
			{"its cost: stream without loss", "sim 1ms 1G queue 1 loss 0% reorder 0%", "MB/s"},
		},
	},
	{
		name:   "packet numbers are skipped",
		parts:  []string{"btl/internal/numbers: Source.skip Numbers.Sent"},
		off:    []change{{in: "btl/internal/numbers", old: "$_.latest != 0", new: "false"}},
		needed: "finds peers with selective ACKs that acknowledge what they have not received",
		trials: []trial{
			{"its cost: stream without loss", "sim 1ms 1G queue 1 loss 0% reorder 0%", "MB/s"},
		},
	},
	{
		name: "counted link",
		parts: []string{
			"btl/internal/peer/link_counted.go", "btl/internal/receive/link_counted.go",
			"btl/internal/peer: Sent.OnConfirm Sent.OnNackCounted Sent.abandonCounted " +
				"Buffers.BreakOff",
			"btl/internal/inbound/counted.go", "reliability/counted.go",
			"btl/internal/liveness/confirm.go",
		},
		swap:   [2]string{"--provider shm", "--provider shm --set reliability=own"},
		needed: "part of the mission: reliable fabrics",
		trials: []trial{
			{"single messages, shm", "--provider shm --test lat --size 8", "p50-ns"},
			{"windows of 64 small messages, shm", "--provider shm --test rate --window 64", "ns/op"},
		},
	},
	{
		name:   "shares of common resources",
		parts:  []string{"btl/internal/share"},
		needed: "a peer that stands still takes nothing from the others",
		off: []change{{
			in:  "btl/internal/share",
			old: "$a && $f > $r || $h < $f-$r || $h < few($*_)", new: "$h >= 0 || $r > 0",
		}},
		trials: []trial{{"stream beside one to a peer that does not run", "sim stalled peer", "MB/s"}},
	},
	{
		name: "packets in Parts",
		parts: []string{
			"frag/part.go", "btl/internal/peer/write_path.go",
			"btl/internal/receive: Asides.onPart Asides.partRefused Receiver.receiveWhole",
		},
		needed: "without it, packets in flight are lost for ever when the path MTU falls",
	},
	{
		name:   "cache of registered memory",
		parts:  []string{"btl/internal/regcache"},
		needed: "part of the mission: networks that send only from registered memory",
	},
	{
		name:   "profile usnic",
		parts:  []string{"reliability/usnic.go"},
		needed: "part of the mission: the rules of Open MPI's usnic",
	},
	{
		name: "yields beside other programs",
		parts: []string{
			"internal/waiting/yield.go",
			"internal/waiting: Policy.look Policy.Yielded Policy.MayYield Policy.share",
		},
		needed: "measured in [Beside other work](busy.md)",
	},
}
