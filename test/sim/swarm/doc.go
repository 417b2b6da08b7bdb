// Package swarm runs whole clusters of modules through faults, in virtual time and from one seed,
// and judges everything they do.
//
// Run draws a Plan from the seed: two to six nodes, each with a configuration of its own, the
// faults of each path and node, incidents (pauses, crashes, restarts, partitions), attackers and a
// workload. Which faults a run has at all is drawn too, so that every fault also comes alone and in
// every company. A run has three phases:
//
//  1. Faults and workload are on. Only safety is judged.
//  2. The network is healed and nothing new is sent. Everything must end within a bound of virtual
//     time (Plan.DrainLimit), and every module be idle.
//  3. The modules are closed in order. Nothing may be left.
//
// The judge (the files ledger.go, ends.go, puts.go) records every message: its sender, the node and
// the incarnation that it was sent to, how and how often the send ended, and each delivery. After
// every pass of a module its Check must hold.
//
// Messages are delivered in any order, which is not judged.
//
// Two things are not claimed. The protocol leaves the integrity of datagrams to their carrier, so
// between two nodes whose path silently corrupts datagrams anything may be delivered or lost. An
// attacker that knows a connection's tag may harm that connection. Such pairs of nodes are tainted.
// What may not happen even there: a panic, a broken invariant, a send that never ends, a leak, harm
// to others.
package swarm
