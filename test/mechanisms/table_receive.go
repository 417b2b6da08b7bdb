package main

// receiveMechanisms are mechanisms of the way in, and of passes.
var receiveMechanisms = []mechanism{
	{
		name: "fast receive",
		parts: []string{
			"btl/internal/receive: Receiver.ReceiveFast Receiver.putOff Receiver.FinishDeferred " +
				"Receiver.getFast Receiver.DeferredCounted deferredReceive admissible",
			"btl: Module.takeFirst",
		},
		off: []change{{in: receiveDir, old: "$a || booksFirst", new: "$a || true"}},
		trials: []trial{
			{"single messages, loop of the program, udp", "--provider udp --test lat --size 8", "p50-ns"},
			{"single messages, loop of the program, shm", "--provider shm --test lat --size 8", "p50-ns"},
			{"the same: CPU time of both sides", "bench ./btl BenchmarkShmRound8", "ns/op"},
			{"gets of 8 B, shm", "--provider shm --test get_lat --size 8", "p50-ns"},
		},
	},
	{
		name: "passes that only poll",
		parts: []string{
			"btl/internal/peer/rest.go", "btl: Module.restsOn Module.checkRest",
		},
		off: []change{{in: "btl", old: "!found && MayRest()", new: "false"}},
		trials: []trial{
			{"single messages, udp", "--provider udp --test lat --size 8", "p50-ns"},
			{"single messages, shm", "--provider shm --test lat --size 8", "p50-ns"},
			{"the same: CPU time of both sides", "bench ./btl BenchmarkShmRound8", "ns/op"},
		},
	},
	{
		name: "they go on after an answer",
		parts: []string{
			"btl: Module.restsOn", "btl/internal/peer: Rest.Interrupt Rest.ResumeUntil",
			"btl/internal/receive: Receiver.DeferredCounted",
		},
		off: []change{{in: "btl", old: "fastLast && restsOn()", new: "false"}},
		trials: []trial{
			{"single messages, shm", "--provider shm --test lat --size 8", "p50-ns"},
			{"the same: CPU time of both sides", "bench ./btl BenchmarkShmRound8", "ns/op"},
		},
	},
	{
		name:  "idle channels are polled less",
		parts: []string{"btl/internal/port: Channel.Rests Channel.MayRest"},
		off: []change{{
			in: "btl/internal/port", old: "Idle >= idlePolls", new: "false && Idle >= idlePolls",
		}},
		trials: []trial{
			{"single messages, udp", "--provider udp --test lat --size 8", "p50-ns"},
			{"single messages of 1400 B, udp", "--provider udp --test lat --size 1400", "p50-ns"},
		},
	},
	{
		name: "direct receive (landing)",
		parts: []string{
			"btl/internal/landing", "btl/internal/receive/direct_chunks.go", "fabric/shm: endpoint.Land",
		},
		off: []change{{in: receiveDir, old: "$a && Landing", new: "$a && false"}},
		trials: []trial{
			{"puts of 1 MiB, shm", "--provider shm --test put_bw --size 1M", "ns/op"},
			{"single messages of 1 MiB, shm", "--provider shm --test lat --size 1M", "p50-ns"},
			{"stream of 1 MiB, shm", "--provider shm --test bw --size 1M", "ns/op"},
		},
	},
	{
		name: "landing: the first chunk is guessed",
		parts: []string{
			"btl/internal/landing: Plan.Worth", "frag: Assembler.Anticipate Assembler.BeginLanded",
		},
		off: []change{{in: landingDir, old: "Worth($*_) && $_.bytes == $_.SizeBytes", new: "false"}},
		trials: []trial{
			{"stream of 64 KiB, shm", "--provider shm --test bw --size 64K", "ns/op"},
		},
	},
	{
		name:  "landing: one packet first",
		parts: []string{"btl/internal/landing: Plan.OneByOne"},
		off:   []change{{in: landingDir, old: "$_ == nil && ($_ || justWhole)", new: "false"}},
		trials: []trial{
			{"stream of 1 MiB, shm", "--provider shm --test bw --size 1M", "ns/op"},
			{"single messages of 1 MiB, shm", "--provider shm --test lat --size 1M", "p50-ns"},
		},
	},
	{
		name:  "landing: the next sender is predicted",
		parts: []string{"btl/internal/landing: Plan.plan Plan.learn"},
		off: []change{{
			in: landingDir, old: "$a != nil && $a.open", new: "false && $a.open", with: "living()",
		}},
		trials: []trial{
			{"chunks of two senders in their place", "sim two large senders", "landed-%"},
		},
	},
	{
		name: "coalesced datagrams (GRO)",
		parts: []string{
			"fabric/udp: receiver.widen receiver.widest receiver.narrow receiver.gather receiver.join " +
				"receiver.spread receiver.single receiver.adapt",
		},
		swap: [2]string{"--provider udp", "--provider udp;nogro"},
		trials: []trial{
			{"stream of 1 MiB, udp, MTU 1500", "--provider udp --test bw --size 1M --mtu 1500", "ns/op"},
		},
	},
	{
		name: "small credits",
		parts: []string{
			"reliability/small.go", "btl/internal/peer: Services.openSmall",
		},
		off: []change{{in: "reliability", old: "$_ >= 2 && $_ > 0", new: "false"}},
		trials: []trial{
			{
				"windows of 512 small messages, udp, small socket buffer",
				"--provider udp --test rate --window 512 --set recv_buffer_bytes=-1 --set pack_bytes=1",
				"ns/op",
			},
			{
				"the same with packs",
				"--provider udp --test rate --window 512 --set recv_buffer_bytes=-1", "ns/op",
			},
		},
	},
}

// waitMechanisms are mechanisms of package waiting.
var waitMechanisms = []mechanism{
	{
		name:  "spinning before a sleep",
		parts: []string{"internal/waiting: Policy.Late Policy.Empty Policy.Found rare"},
		swap:  [2]string{"--wait adaptive", "--wait event"},
		trials: []trial{
			{
				"single messages, Runner, udp",
				"--provider udp --layer runner --wait adaptive --test lat --size 8", "p50-ns",
			},
		},
	},
	{
		name:  "longer spinning for a peer that sleeps",
		parts: []string{"internal/waiting: Policy.Late"},
		off:   []change{{in: "internal/waiting", old: "longSpin * $a", new: "$a"}},
		trials: []trial{
			{
				"messages with pauses of 200 us, Runner, udp",
				"--provider udp --layer runner --wait adaptive --test lat --size 8 --gap 200us", "p50-ns",
			},
		},
	},
	{
		name:  "sleep without a poll after silences",
		parts: []string{"internal/waiting: Policy.Calm", "btl/runner: Runner.atRest"},
		off: []change{{
			in: "internal/waiting", old: "mode == Event || mode == Adaptive && budget == 0", new: "false",
		}},
		trials: []trial{
			{
				"messages with pauses of 5 ms, Runner, udp",
				"--provider udp --layer runner --wait adaptive --test lat --size 8 --gap 5ms", "p50-ns",
			},
		},
	},
}
