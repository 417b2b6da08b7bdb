package main

import "testing"

// -o takes what the old tool took, a bare address, and whole URLs.
func TestInfluxURL(t *testing.T) {
	for addr, want := range map[string]string{
		"156.62.60.71":                   "http://156.62.60.71:8086/write?db=gobtl",
		"metrics.example":                "http://metrics.example:8086/write?db=gobtl",
		"2001:db8::1":                    "http://[2001:db8::1]:8086/write?db=gobtl",
		"[2001:db8::1]":                  "http://[2001:db8::1]:8086/write?db=gobtl",
		"192.0.2.1:99":                   "http://192.0.2.1:99/write?db=gobtl",
		"[2001:db8::1]:99":               "http://[2001:db8::1]:99/write?db=gobtl",
		"http://192.0.2.1:99":            "http://192.0.2.1:99/write?db=gobtl",
		"https://h.example/write?db=own": "https://h.example/write?db=own",
		"ftp://x":                        "",
		"x y":                            "",
		"192.0.2.1:port":                 "",
	} {
		got, err := influxURL(addr)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", addr, got, err, want)
		}
	}
}
