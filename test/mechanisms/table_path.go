package main

const (
	peerDir    = "btl/internal/peer"
	receiveDir = "btl/internal/receive"
	landingDir = "btl/internal/landing"
)

// sendMechanisms are mechanisms of the way out.
var sendMechanisms = []mechanism{
	{
		name:  "first message at once",
		parts: []string{"btl/internal/peer: Endpoint.unbatched"},
		off:   []change{{in: peerDir, old: "sentIn != Epoch && (!bursts || !busy())", new: "false"}},
		trials: []trial{
			{"single messages, udp", "--provider udp --test lat --size 8", "p50-ns"},
			{"single messages, shm", "--provider shm --test lat --size 8", "p50-ns"},
		},
	},
	{
		name:  "bursts begin in a pack",
		parts: []string{"btl/internal/peer: Endpoint.unbatched"},
		off:   []change{{in: peerDir, old: "!bursts || !busy()", new: "true"}},
		trials: []trial{
			{"windows of 8 small messages, udp", "--provider udp --test rate --window 8", "ns/op"},
			{"windows of 64 small messages, udp", "--provider udp --test rate --window 64", "ns/op"},
		},
	},
	{
		name: "packs",
		parts: []string{
			"btl/internal/pack", "btl/internal/peer/pack.go", "btl/internal/receive/pack.go",
			"btl/internal/peer: Sent.chainEnded Sent.onNackRecord Sent.toldDone " +
				"Buffers.chain Buffers.recordsOf",
			"frag/pack.go",
		},
		off: []change{{
			in: peerDir, old: "2 * ($_ + RecordHeaderBytes) <= $_ - FragHeaderBytes", new: "false",
		}},
		trials: []trial{
			{"bursts of 64 small messages, 100 Mbit/s", "sim bursts of 8 B", "us/op"},
			{"windows of 64 small messages, udp", "--provider udp --test rate --window 64", "ns/op"},
			{"windows of 64 small messages, shm", "--provider shm --test rate --window 64", "ns/op"},
		},
	},
	{
		name: "early packs over a reliable fabric",
		parts: []string{
			"btl/internal/peer: Packs.postEarly",
		},
		off: []change{{in: peerDir, old: "uint32($_) < postAt", new: "true"}},
		trials: []trial{
			{"windows of 64 small messages, shm", "--provider shm --test rate --window 64", "ns/op"},
			{"windows of 512 small messages, shm", "--provider shm --test rate --window 512", "ns/op"},
		},
	},
	{
		name: "large messages share packets",
		parts: []string{
			"btl/internal/peer/mix.go", "btl/internal/peer: Sent.failBegun",
			"btl/internal/inbound/pieces.go",
			"frag: PutPiece readPiece DecodePiece checkPiece Piece Piece.inFragment",
			"btl/internal/receive: Records.admitPieces Records.tooLongPiece Records.acceptPiece",
		},
		off: []change{{in: peerDir, old: "!Counted && $_ <= mixMTUBytesMax", new: "false"}},
		trials: []trial{
			{"stream of 2000 B messages, 1 Gbit/s", "sim 2000 B messages", "MB/s"},
			{
				"stream of 2000 B messages, udp, MTU 1500",
				"--provider udp --test bw --size 2000 --mtu 1500", "ns/op",
			},
		},
	},
	{
		name:  "a burst of packets is one post",
		parts: []string{"btl/internal/peer: Sender.companyOn Endpoint.quiet"},
		off:   []change{{in: peerDir, old: "return trainMax", new: "return 1"}},
		trials: []trial{
			{"stream of 1400 B, udp", "--provider udp --test bw --size 1400 --mtu 1500", "ns/op"},
			{"stream of 8 KiB, udp", "--provider udp --test bw --size 8K", "ns/op"},
		},
	},
	{
		name:  "packets of equal size over a reliable fabric",
		parts: []string{"btl/internal/peer: Endpoint.evenly"},
		off:   []change{{in: peerDir, old: "!Counted || $_ <= $_", new: "true"}},
		trials: []trial{
			{"stream of 70000 B, shm", "--provider shm --test bw --size 70000", "ns/op"},
			{"stream of 1 MiB, shm", "--provider shm --test bw --size 1M", "ns/op"},
		},
	},
	{
		name:   "memory is gathered, not copied",
		needed: "networks that read registered memory by DMA send without a copy",
		parts: []string{
			"btl/internal/payload: Memory.Gather Memory.gatherPieces Memory.noteOwn Memory.Drop " +
				"Memory.drop Payload.Load Payload.Source Payload.Gathered",
			"btl/internal/peer/gather.go",
		},
		off: []change{{in: peerDir, old: "$_.Gather($*_)", new: "false"}},
		trials: []trial{
			{"stream of 1 MiB, udp", "--provider udp --test bw --size 1M", "ns/op"},
			{"stream of 64 KiB, udp", "--provider udp --test bw --size 64K", "ns/op"},
		},
	},
	{
		name:  "express messages",
		parts: []string{"btl/internal/peer: Sender.express writeWhole"},
		off:   []change{{in: peerDir, old: "Counted && unbatched && express($*_)", new: "false"}},
		trials: []trial{
			{"single messages, shm", "--provider shm --test lat --size 8", "p50-ns"},
			{"the same: CPU time of both sides", "bench ./btl BenchmarkShmRound8", "ns/op"},
		},
	},
	{
		name:  "urgent messages",
		parts: []string{"btl/internal/peer: Fragment.hurry", "btl/internal/sched/urgent.go"},
		off:   []change{{in: peerDir, old: "if $_.Urgent {\n$_.hurry()\n}", new: ""}},
		trials: []trial{
			{"one urgent message behind 200 packets", "sim urgent", "us/op"},
		},
	},
	{
		name:  "new flows first",
		parts: []string{"btl/internal/sched: RoundRobin.Add RoundRobin.Fresh"},
		off:   []change{{in: "btl/internal/sched", old: "$_.Deficit > 0", new: "false"}},
		trials: []trial{
			{"2000 B beside streams to 16 peers, CPU is the limit", "sim among many, slow sender", "us/op"},
			{"8 messages of 8 B, the same", "sim bursts among many, slow sender", "us/op"},
			{"32 KiB beside streams to 16 peers, network is the limit", "sim among many", "us/op"},
			{"the same with 256 send buffers", "sim among many, 256 buffers", "us/op"},
			{"2000 B beside streams to 16 peers, 64 send buffers", "sim among many, 64 buffers", "us/op"},
		},
	},
	{
		name:  "window kept for small messages",
		parts: []string{"btl/internal/peer: Endpoint.BulkRoom"},
		off:   []change{{in: peerDir, old: "$a - min(spareMax, $_)", new: "$a"}},
		trials: []trial{
			{"small messages beside large ones that fill the window", "sim beside bulk", "p99-us"},
		},
	},
	{
		name:  "memory of large messages is kept",
		parts: []string{"btl/internal/spare"},
		off:   []change{{in: "btl/internal/spare", old: "$_ <= cap($_) && cap($_) <= $_", new: "false"}},
		trials: []trial{
			{
				"stream of 1 MiB, Runner, udp",
				"--provider udp --layer runner --test bw --size 1M --window 16", "ns/op",
			},
		},
	},
	{
		name: "segmentation offload (GSO)",
		parts: []string{
			"fabric/udp/runs.go", "fabric/udp: endpoint.postSingly maybeOffload",
		},
		swap: [2]string{"--provider udp", "--provider udp;nogso"},
		trials: []trial{
			{
				"stream of 1 MiB, udp, MTU 1500", "--provider udp --test bw --size 1M --mtu 1500",
				"ns/op",
			},
		},
	},
	{
		name:  "several datagrams a system call",
		parts: []string{"fabric/udp: endpoint.push"},
		swap:  [2]string{"--provider udp", "--provider udp;nommsg"},
		trials: []trial{
			{"stream of 1 MiB, udp", "--provider udp --test bw --size 1M", "ns/op"},
			{"windows of 512 small messages, udp", "--provider udp --test rate --window 512", "ns/op"},
		},
	},
}
