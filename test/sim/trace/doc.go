// Package trace writes what happens on a simulated network (fabric/sim) for people: as text, one
// line per event (Writer), and as a pcapng file that Wireshark opens (Pcap).
package trace
