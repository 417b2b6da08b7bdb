//go:build linux

// Package agent is a host of virtual switches at work: devices, sockets, threads.
//
//	TAP queue --> sender thread --> endpoint ~~~ fabric ~~~> endpoint --> receiver thread --> TAP
//	                   |                                                        ^
//	                   +--> trains --> control thread: btl module ~~~> ... -----+
//	                                   vnic.Agent <-- management -- manager
//
// Each thread owns what it works with. A sender has a lock that it holds while it works on a batch,
// a receiver too; counters are read, and tables exchanged, under it. The control thread owns the
// module, the vnic.Agent and the list of ports, and runs what others ask of it.
package agent
