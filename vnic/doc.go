// Package vnic carries Ethernet over a fabric, as Omni-Path's VNIC does: virtual Ethernet switches
// that exist nowhere as a box, only as rules in the hosts that an Ethernet Manager hands out.
//
//	   frame of a TAP                                               frame to a TAP
//	        |                                                              ^
//	  Egress.Forward   MAC table, learned, group, LID in MAC, default port |
//	        |  Header                                       Host.Accept, Ingress counters
//	  Header.Append    20 bytes | frame | pad | ICRC room | tail   Parse   |
//	        |                                                              |
//	        +------ datagrams of package fabric, or trains over btl -------+
//
//	Manager --- attributes: port info, MAC table, members, LIDs, lease ---> Agent --> Tables
//	        <-- responses, counters, traps ----------------------------------
//
// A host of the fabric has a LID, a number of 24 bits; a port of it on a switch (VESW, 12 bits) is
// a vport, 1 to 255. Tables holds all that decides where the frames of a port go; it never changes
// once it is made, and is exchanged whole.
//
// Nothing here reads a clock, starts a goroutine or takes a lock. Each value belongs to the
// goroutine that uses it; Tables may be shared by all. docs/vnic.md has the bytes and the pictures.
package vnic
