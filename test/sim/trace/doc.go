// Package trace writes the events of a simulated network (fabric/sim) as text with one line per
// event (Writer), or as a pcapng file for Wireshark (Pcap).
package trace
