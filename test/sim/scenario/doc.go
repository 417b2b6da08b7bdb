// Package scenario runs short scripts on a simulated network, with modules of package btl, faults
// at chosen packets, and the required results. Each script file contains a golden trace, so that
// every change of behaviour on the wire is detected.
//
// A file is a txtar archive. Its comment is a title, and a line that begins with "Rule:" and names
// the tested rule. The section "script" has one command in each line, and the section "trace" has
// the golden trace, which go test ./test/sim/scenario -rewrite replaces.
//
// # Setting up
//
//	network [seed= mtu= inject= queue= pass=]     before the first node
//	network [regions=free|none] [landing=off]     what the network can do with memory (sim.Config)
//	network [reliable=yes]                        reliable and ordered by itself, but for drop
//	node NAME [reliability=own]                   does not rely on such a network
//	node NAME [first= profile= window= mtu= ...]  opens a module; usnic at first; see nodeKeys
//	path a>b|a<>b [delay= bandwidth= queue= mtu=] 10 us is the delay of every path at first
//	handler NODE TAG on|off                       tags 1 to 9 have handlers at first
//	expose NODE SIZE                              region 1, 2 ... of the node
//	unexpose NODE REGION
//	faults NODE [again= posts= senderror= recverror= late= queue=]
//
// # What applications do
//
//	connect a>b [life=N]                          to b's Nth life, the latest one if not said
//	link a>b                                      connect, until idle and a full millisecond,
//	                                              without a trace
//	send a>b SIZE [tag= way= count=]              messages m1, m2 ...; ways: signal (OnDone in any
//	                                              case), alloc, prepare, now
//	put a>b SIZE [region= offset= count= handle=] to a region of b; a wrong handle if asked for
//	flush a>b
//	close a>b | abort a>b                         a's side of the connection
//	drain NODE DURATION | stop NODE               Module.Drain, Module.Close
//	crash NODE | restart NODE [node's keys] | pause NODE DURATION | pace NODE DURATION
//
// # What the network does
//
//	drop PACKETS | dup PACKETS [copies= after=] | delay PACKETS by=
//	cut a>b|a<>b | heal a>b|a<>b
//	keep PACKETS as NAME                          a copy, for inject
//	inject NAME [to=b.data] [set=OFFSET:HEX]      sends the copy (again), perhaps altered
//	inject a>b cmd|data KIND [field=value ...]    a packet made by hand; see injectPacket
//	inject a>b cmd|data hex=BYTES
//
// PACKETS has the form "a>b [cmd|data] KIND [seq=] [probe=] [tag=] [N | N..M | all]", and selects
// the Nth matching packet from now on, by default the first one. KIND is a kind of the trace,
// "foreign" (another protocol version), or "any". In a packet of a script, numbers are relative to
// the connection's first number.
//
// # Time, and what must be
//
//	run DURATION
//	run until CONDITION [within DURATION]         10 s if not said
//	expect CONDITION
//	expect not CONDITION
//
// A CONDITION is "idle", "sent PACKETS", "delivered PACKETS", or one of the following:
//
//	NODE delivered N                              messages handed to handlers
//	mN|mN..mM done|failed ERR|pending|refused ERR|arrived
//	a>b connected|connecting|open|closed [ERR]|failed [ERR]|none
//	a>b flushed
//	a>b outstanding N
//	NODE COUNTER =|>=|<= N                        a counter of btl.Stats: retransmits/timeout
//	NODE gauge endpoints|inflight|buffers|credits =|>=|<= N
//
// After every poll of a module its Check must succeed. At the end of a script, no operation or
// packet may be pending.
package scenario
