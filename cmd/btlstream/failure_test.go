package main

import (
	"net"
	"strings"
	"testing"
)

// A sender that finds nobody at the address of its receiver says only that.
func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	var out, errs strings.Builder
	status := run([]string{"-s", "--connect", address, "--wait", "2s"}, nil, &out, &errs)
	if want := "btlstream: nobody listens at " + address + "\n"; status != exitFailure ||
		out.String() != "" || errs.String() != want {
		t.Errorf("status %d, output %q, errors %q", status, out.String(), errs.String())
	}
}
