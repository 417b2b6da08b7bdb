// Package layers implements the hot loops of btlbench, which are its tests on the bare fabric
// (raw*.go) and on the transport (btl_*.go).
//
//	Side                    one process' end: opened for a Config, with the faults that it names
//	  |-- engine            a goroutine locked to its thread, pinned; it owns all that follows
//	  '-- Layer raw, btl    prepare --> client | server --> counters, state; once per round
//	        '-- Round       what both sides agreed on (plan.Spec), what this one has seen of it
//
// A Layer belongs to the engine's goroutine, and all its methods are called within Side.Do. Other
// goroutines may only request the end of a Round, by its flags.
package layers
