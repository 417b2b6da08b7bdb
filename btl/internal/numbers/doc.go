// Package numbers assigns packet numbers to the packets sent to a peer, and ids to the fragments
// that are sent in several chunks. Each channel has its own packet numbers, and a retransmission
// gets a new number. Some packet numbers are skipped at random, to detect a peer that acknowledges
// packets which it has not received (optimistic ACKs).
//
//	taken     1 to n     n+1       n+2 and later
//	=======   ======     ===       =============
//	on wire   sent       never     the next ones
//
// The types of package numbers are not safe for concurrent use.
package numbers
