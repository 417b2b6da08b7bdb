// Package usage extends the command-line parser kong for all programs. The extensions of kong are
// exact bytes in values, sizes such as 64K, clearer error texts, and the flags of every program
// (Own), which are --version, --completion and --man. Package usage makes manual pages,
// completions and the reference from kong's model of the flags.
//
//	--size: expected value value but got "-1" (short flag); perhaps try --size="-1"?
//	--size must not be negative: -1
//
// The functions have no state, and any goroutine may call them.
package usage
