package vnic

import "gobtl/internal/words"

var rCClassWords = [...]string{
	RCDefault: "default",
	RCIPv4:    "IPv4",
	RCIPv4UDP: "IPv4 UDP",
	RCIPv4TCP: "IPv4 TCP",
	RCIPv6:    "IPv6",
	RCIPv6TCP: "IPv6 TCP",
	RCIPv6UDP: "IPv6 UDP",
}

// String returns the name of the class.
func (r RCClass) String() string { return words.Name(rCClassWords[:], int(r), "RCClass") }

var verdictWords = [...]string{
	Dropped:  "dropped",
	Unicast:  "unicast",
	ToGroup:  "to a group",
	Answered: "answered",
}

// String returns the name of the verdict.
func (v Verdict) String() string { return words.Name(verdictWords[:], int(v), "Verdict") }
