// Package vnic carries Ethernet over a fabric, as Omni-Path's VNIC does. A virtual Ethernet switch
// is no device, but a set of rules in the hosts, which an Ethernet Manager distributes.
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
// a vport, 1 to 255. A Tables value determines where the frames of a port go. It is immutable, and
// is replaced as a whole.
//
// The package reads no clock, starts no goroutine and takes no lock. Each value belongs to one
// goroutine, except that Tables may be shared by all. docs/vnic.md has the bytes and the pictures.
package vnic
