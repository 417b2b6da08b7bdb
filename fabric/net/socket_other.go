//go:build unix && !linux && !darwin && !freebsd

package net

// dontFragment returns the options by which datagrams of an IP version stay whole: none is known.
func dontFragment(int) []option { return nil }
