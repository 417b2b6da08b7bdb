package main

// The faults below concern messages that are too long for their handler, and applications that wait
// for free send buffers.
var placeMutations = []mutation{
	{
		name:  "long-guessed",
		fault: "the first chunks of a message that is too long stay where they were guessed to belong",
		in:    "btl/internal/receive",
		old:   "$m.handlers[$t] == nil || $m.tooLong($h)",
		new:   "$m.handlers[$t] == nil",
		test:  "./btl -run TestHandleUpToGuess",
	},
	{
		name:  "long-refused-otherwise",
		fault: "a chunk of a message that is too long is refused again for another reason",
		in:    "btl/internal/receive",
		old:   "!$r.HasFragment($f) || $m.tooLong($h)",
		new:   "!$r.HasFragment($f)",
		test:  "./btl -run TestHandleUpToRefusalLost",
	},
	{
		name:  "long-taken",
		fault: "a message that is a byte too long for its handler is taken",
		in:    "btl/internal/receive",
		old:   "$most != 0 && $h.SizeBytes > $most",
		new:   "$most != 0 && $h.SizeBytes > $most+1",
		test:  "./btl -run TestHandleUpToRefusalLost",
	},
	{
		name:  "room-not-told",
		fault: "nobody is told that there is room again",
		in:    "btl/internal/peer",
		old:   "Push(Notice{Ep: $ep, Kind: NoteRoom})",
		new:   "Push(Notice{Ep: $ep, Kind: NoteEvent})",
		test:  "./btl -run TestOnRoom",
	},
}
