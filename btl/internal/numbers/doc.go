// Package numbers assigns packet numbers to the packets sent to a peer, and ids to the fragments
// that are sent in chunks. Each channel has its own packet numbers, and a retransmission gets a new
// number. Some numbers are skipped at random, which exposes a peer that acknowledges packets that
// it has not received (optimistic ACKs).
//
//	taken     1 to n     n+1       n+2 and later
//	=======   ======     ===       =============
//	on wire   sent       never     the next ones
//
// Only one goroutine may use the types of package numbers.
package numbers
