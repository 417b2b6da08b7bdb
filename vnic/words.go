package vnic

import "strconv"

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
func (r RCClass) String() string { return word(rCClassWords[:], int(r), "RCClass") }

var verdictWords = [...]string{
	Dropped:  "dropped",
	Unicast:  "unicast",
	ToGroup:  "to a group",
	Answered: "answered",
}

// String returns the name of the verdict.
func (v Verdict) String() string { return word(verdictWords[:], int(v), "Verdict") }

// The function "word" returns the name of a value. If the value has no name, the function "word"
// returns the type and the number.
func word(words []string, value int, of string) string {
	if value >= 0 && value < len(words) && words[value] != "" {
		return words[value]
	}
	return of + "(" + strconv.Itoa(value) + ")"
}
