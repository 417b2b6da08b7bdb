// Command kvstore keeps values under keys in the memory of several processes, its members, and
// reads them without any work of theirs.
//
//	client                                member
//	find  -------- request -------------> inline, on the goroutine that drives
//	      <------- version, region, size
//	read  -------- get -----------------> nobody: the transport answers
//	reserve ------ request -------------> memory for a value, which this client alone may write
//	write -------- put -----------------> nobody
//	commit ------- request -------------> the key has that value from now on
//
// A value is never changed: a newer one has a region of its own, and that of the old one is closed.
// A get of the old one ends with an error then, and whoever finds that asks for the place anew. So
// nobody reads half of a value, and no lock is needed.
//
// Each value has two copies. A member that was killed and started again takes its values from those
// who have the other copies; it comes back empty, so what it has is never older than theirs. The
// newer of two values is the one with the greater version, which is the writer's clock.
//
// Members tell their names by files in a directory. Run it without arguments: it starts three
// members, kills and restarts one of them, kills another, and reads all values in between.
package main
