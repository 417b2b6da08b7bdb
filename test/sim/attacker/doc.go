// Package attacker is a node of the simulated network that runs no module and means harm. It sends
// what somebody could send who reaches the same network: with made-up addresses, made-up and
// overheard bytes, at any time. What it does is drawn from a seed, so that a run can be repeated.
//
// A Mode says what it knows and what it is after. The modes differ in what they may achieve:
//
//	mode        knows                          may achieve
//	Blind       nothing                        nothing
//	AckForger   numbers, no connection's tag   nothing
//	Replayer    every packet, verbatim         a dead peer is noticed late (FeignsLife)
//	HelloFlood  addresses and incarnations     no new connections while it lasts
//	Insider     its own connections            harm to its own connections
//	TagThief    the tags of one connection     any harm to the connections of two nodes
//
// Everything else is a fault of the modules: the traffic of the others stays whole, exactly once
// and in bounded memory. Tainted tells for whose connections that is not claimed.
//
// The owner of the network hands every event to See. An attacker changes nothing there; it acts
// from events that it schedules with Network.At, and stops at Config.Until.
package attacker
