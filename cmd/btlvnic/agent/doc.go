//go:build linux

// Package agent runs the devices, sockets and threads of a host of virtual switches.
//
//	TAP queue --> sender thread --> endpoint ~~~ fabric ~~~> endpoint --> receiver thread --> TAP
//	                   |                                                        ^
//	                   +--> trains --> control thread: btl module ~~~> ... -----+
//	                                   vnic.Agent <-- management -- manager
//
// Each thread owns the data that it works with. A sender or a receiver holds its lock while it
// works on a batch. Other threads read counters and exchange tables while they hold the lock. The
// control thread owns the module, the vnic.Agent and the list of ports. Other threads queue
// functions that the control thread runs.
package agent
