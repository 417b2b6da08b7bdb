// Package usage extends the command-line parser kong for all programs: exact bytes in values, sizes
// such as 64K, clearer error texts, and the flags that every program has (Own): --version,
// --completion, --man. Manual pages, completions and the reference are made from kong's model of
// the flags.
//
//	--size: expected value value but got "-1" (short flag); perhaps try --size="-1"?
//	--size must not be negative: -1
//
// The functions have no state; any goroutine may call them.
package usage
