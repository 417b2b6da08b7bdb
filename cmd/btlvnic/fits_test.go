//go:build linux

package main

import "testing"

func TestFits(t *testing.T) {
	for _, c := range []struct {
		own, em string
		want    bool
	}{
		{"10.77.0.1", "10.77.0.9:4790", true},
		{"10.77.0.1", "em.example:4790", true},
		{"fe80::a%eth0", "10.77.0.9:4790", false},
		{"fe80::a%eth0", "em.example:4790", false},
		{"fe80::a%eth0", "[fe80::b%eth0]:4790", true},
		{"fe80::a%eth0", "[2001:db8::b]:4790", false},
		{"2001:db8::a", "[2001:db8::b]:4790", true},
		{"2001:db8::a", "10.77.0.9:4790", false},
		{"10.77.0.1", "[::ffff:10.77.0.9]:4790", true},
		{"node0", "10.77.0.9:4790", true},
	} {
		if got := fits(c.own, c.em); got != c.want {
			t.Errorf("%s to %s: %v", c.own, c.em, got)
		}
	}
}
