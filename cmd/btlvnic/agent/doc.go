//go:build linux

// Package agent runs the devices, sockets and threads of a host of virtual switches.
//
//	TAP queue --> sender thread --> endpoint ~~~ fabric ~~~> endpoint --> receiver thread --> TAP
//	                   |                                                        ^
//	                   +--> trains --> control thread: btl module ~~~> ... -----+
//	                                   vnic.Agent <-- management -- manager
//
// Each thread owns the data it uses, but other threads may read counters and exchange tables under
// a lock, which a thread holds while it handles a batch. The control thread owns the module, the
// vnic.Agent and the list of ports. Other threads queue functions that the control thread runs.
package agent
