//go:build unix && !linux && !darwin && !freebsd

package net

func dontFragment(int) []option { return nil }
