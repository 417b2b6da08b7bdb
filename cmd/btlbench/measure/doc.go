// Package measure runs a plan over a session, and reports the results.
//
//	Bench: for each test, size, window    rounds; the layers take turns within each
//	  '-- measurement --> RunRecord       medians over the rounds, latencies of all of them
//	        '-- Document --> Write        table, JSON, CSV, or lines for benchstat
//
// One goroutine runs a Bench and writes its Document.
package measure
