package main

// The faults of large messages that come into memory of the owner's, of sends that are taken back,
// and of who waits for room.
var placeMutations = []mutation{
	{
		name:  "place-not-given-back",
		fault: "the memory that was given for a message does not come back when its endpoint ends",
		in:    "btl",
		old:   "$ep.m.outbox.abandon($ep, $tag, $mem)",
		with:  "asm.AllPlaced()",
		new:   "_, _ = $tag, $mem",
		test:  "./btl -run TestPlaceAbandoned",
	},
	{
		name:  "place-too-small",
		fault: "a message is put into memory that is a byte too short for it",
		in:    "btl",
		old:   "uint64(len($to.mem)) >= uint64($h.SizeBytes)",
		new:   "uint64(len($to.mem))+1 >= uint64($h.SizeBytes)",
		test:  "./btl -run TestPlace",
	},
	{
		name:  "place-guessed",
		fault: "the first chunks of a message that is announced stay where they were guessed to belong",
		in:    "btl",
		old:   "$x.begins && placing[$h.Tag] != nil",
		new:   "false",
		test:  "./btl -run TestPlaceGuess",
	},
	{
		name:  "unwanted-taken",
		fault: "the chunk by which a sender learns that its message is not wanted counts as received",
		in:    "btl",
		old:   "$u.seq == $in.Seq",
		new:   "false",
		test:  "./btl -run TestPlaceRefusalLost",
	},
	{
		name:  "unwanted-asked-again",
		fault: "the owner is asked again for a message that he has refused",
		in:    "btl",
		old:   "len($ep.unwanted) > 0 && $m.isUnwanted($in)",
		new:   "false",
		test:  "./btl -run TestPlace$",
	},
	{
		name:  "room-not-told",
		fault: "nobody is told that there is room again",
		in:    "btl",
		old:   "push(notice{ep: $ep, kind: CompletionRoom})",
		new:   "push(notice{ep: $ep, kind: CompletionEvent})",
		test:  "./btl -run TestOnRoom",
	},
}
