//go:build unix && !linux && !darwin && !freebsd

package net

// dontFragment returns no options, because the socket options of this system are not known.
func dontFragment(int) []option { return nil }
