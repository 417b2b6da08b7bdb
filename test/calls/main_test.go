package main

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// TestSystems has every system carry a load.
func TestSystems(t *testing.T) {
	for _, s := range slices.Concat(systems, floors) {
		addr, err := s.serve()
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		request := bytes.Repeat([]byte("0123456789"), 30_000)
		answer, err := c.call(request)
		if err != nil || !bytes.Equal(answer, request) {
			t.Errorf("%s: %d bytes come back as %d, %v", s.name, len(request), len(answer), err)
		}
		l := load{callers: 20, sizeBytes: 8, duration: 20 * time.Millisecond}
		res, err := l.run(c)
		if err != nil || res.Calls < 20 || res.P50Us <= 0 || res.P99Us < res.P50Us || res.CPUUs <= 0 {
			t.Errorf("%s: %+v, %v", s.name, res, err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}
