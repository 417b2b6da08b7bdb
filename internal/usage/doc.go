// Package usage is what all programs want of their parser, kong, beyond what it does: values to the
// byte, sizes such as 64K, errors in the words of the command line's author, and the flags that
// every program has (Own): --version, --completion, --man. Manual pages, completions and the
// reference are made from kong's model of the flags.
//
//	--size: expected value value but got "-1" (short flag); perhaps try --size="-1"?
//	--size must not be negative: -1
//
// Functions without state; any goroutine may call them.
package usage
