// Package swarm runs clusters of modules with faults, in virtual time and from one seed, and checks
// everything that the modules do.
//
// Run draws a Plan from the seed, with two to six nodes and their configurations, faults of paths
// and nodes, incidents (pauses, crashes, restarts, partitions), attackers, and a workload. The
// faults of a run are drawn independently, so that every fault occurs alone and with every other
// fault. Each run has three phases:
//
//  1. Faults and workload are on. In phase 1, only safety is judged.
//  2. The network is healed and nothing new is sent. In phase 2, everything must end within a bound
//     of virtual time (Plan.DrainLimit), and every module must become idle.
//  3. The modules are closed in order. After phase 3, no resource may be left in use.
//
// The judge (the files ledger.go, ends.go, puts.go) records the sender, the destination
// incarnation, the completions and the deliveries of every message. After every poll of a module
// its method Check must succeed.
//
// The judge accepts messages in any order.
//
// The judge makes two exceptions. Datagrams are not protected against corruption, so messages
// between two nodes whose path corrupts datagrams unnoticed may be changed or lost. An attacker
// that knows a connection's tag may harm that connection. Pairs of nodes with corrupted paths or
// stolen tags are called tainted. Even tainted connections must not cause a panic, an inconsistent
// module, a send without an end, a leak, or harm to other connections.
package swarm
