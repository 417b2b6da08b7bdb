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
// A value is never changed. A newer value gets a region of its own, and the region of the old value
// is closed. A get of the old region then fails, and the reader asks for the new place. So a reader
// never gets half of a value, and no lock is needed.
//
// Each value has two copies. A member that was killed and started again gets its values from the
// members with the other copies. It starts empty, so its values are never older than theirs. Of two
// values the one with the greater version is newer. The version is the time of the writer's clock.
//
// Members tell their names by files in a directory. Run it without arguments: it starts three
// members, kills and restarts one of them, kills another, and reads all values in between.
package main
