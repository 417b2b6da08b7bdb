// Package usage is what all programs want of their parser, kong, beyond what it does: values to the
// byte, and errors in the words of who wrote the command line.
//
//	--size: expected value value but got "-1" (short flag); perhaps try --size="-1"?
//	--size must not be negative: -1
//
// Functions without state; any goroutine may call them.
package usage
