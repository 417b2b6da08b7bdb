// Package attacker is a malicious node of the simulated network, without a module. The attacker can
// send any packet that a host on the same network could send, with forged addresses and with forged
// or overheard bytes, at any time. Its actions are drawn from a seed, so that a run can be
// repeated.
//
// A Mode defines the knowledge and the aim of the attacker. The modes differ in the harm that is
// allowed:
//
//	mode        knows                          may achieve
//	Blind       nothing                        nothing
//	AckForger   numbers, no connection's tag   nothing
//	Replayer    every packet, verbatim         a dead peer is noticed late (FeignsLife)
//	HelloFlood  addresses and incarnations     no new connections while it lasts
//	Insider     its own connections            harm to its own connections
//	TagThief    the tags of one connection     any harm to the connections of two nodes
//
// All other harm is an error of the modules, because the messages of all other nodes must be
// delivered intact, exactly once and in bounded memory. Tainted reports the connections to which
// this does not apply.
//
// The code that runs the network passes every event to See. An attacker acts only in events that it
// schedules with Network.At, and stops at Config.Until.
package attacker
