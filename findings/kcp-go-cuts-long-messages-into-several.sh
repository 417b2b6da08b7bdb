#!/bin/bash
# kcp-go (github.com/xtaci/kcp-go) has a stream mode, off by default. Guess: without it each Write is a message, and
# one Read gives it whole, as the protocol KCP does with its counts of fragments. Seen (v5.7.5): boundaries are kept
# for messages that fit one packet. A longer Write is cut into messages of 1376 bytes and a rest, each read by a
# Read of its own, and nothing tells that they belong together.
# Needs: Go 1.26, and the module in the version below.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module seen

go 1.26

require github.com/xtaci/kcp-go/v5 v5.7.5
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/xtaci/kcp-go/v5"
)

func must(err error) {
	if err != nil {
		fmt.Println("cannot tell:", err)
		os.Exit(77)
	}
}

func main() {
	listener, err := kcp.ListenWithOptions("127.0.0.1:0", nil, 0, 0)
	must(err)
	conn, err := kcp.DialWithOptions(listener.Addr().String(), nil, 0, 0)
	must(err)
	left := 0
	for _, size := range []int{100, 200, 5000, 300} {
		_, err := conn.Write(make([]byte, size))
		must(err)
		left += size
		fmt.Println("written:", size)
	}
	must(listener.SetReadDeadline(time.Now().Add(10 * time.Second)))
	peer, err := listener.AcceptKCP()
	must(err)
	must(peer.SetReadDeadline(time.Now().Add(10 * time.Second)))
	var sizes []int
	for left > 0 {
		n, err := peer.Read(make([]byte, 65536))
		must(err)
		sizes = append(sizes, n)
		left -= n
	}
	fmt.Println("read:", sizes)
	if !slices.Equal(sizes, []int{100, 200, 1376, 1376, 1376, 872, 300}) {
		fmt.Println("changed")
		os.Exit(1)
	}
	fmt.Println("as told: the long message is read as several")
}
GO
export GOFLAGS=-mod=mod
go mod tidy >/dev/null 2>&1
go version
go run .
