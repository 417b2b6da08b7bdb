// Package vnic carries Ethernet over a fabric, as Omni-Path's VNIC does. A virtual Ethernet
// switch is not a device, but a set of forwarding rules in the hosts. An Ethernet Manager
// distributes the forwarding rules to the hosts.
//
//	   frame of a TAP                                               frame to a TAP
//	        |                                                              ^
//	  Egress.Forward   MAC table, learned, group, LID in MAC, default port |
//	        |  Header                                       Host.Accept, Ingress counters
//	  Header.Append    20 bytes | frame | pad | ICRC room | tail   Parse   |
//	        |                                                              |
//	        +------ datagrams of package fabric, or trains over btl -------+
//
//	PathSearch      what the path to another host carries, by probes
//
//	Manager --- attributes: port info, MAC table, members, LIDs, lease ---> Agent --> Tables
//	        <-- responses, counters, traps ----------------------------------
//
// A host of the fabric has a LID, a number of 24 bits. A switch (VESW) has a number of 12 bits. A
// host's port on a switch is a vport, with a number from 1 to 255. A Tables value determines the
// destinations of the frames of a port. A Tables value is immutable, so that a change of the
// configuration replaces the whole Tables value.
//
// Package vnic reads no clock, starts no goroutine and has no lock of its own. Only one goroutine
// at a time may use a value of package vnic, except that several goroutines may read the same
// Tables. The packet formats and diagrams are in docs/vnic.md.
package vnic
