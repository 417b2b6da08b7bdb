#!/bin/bash
# kcp-go (github.com/xtaci/kcp-go), reliable sessions over UDP with the methods of net.Conn. Guess: Close behaves as
# with TCP: what Write took without an error is delivered, and then the peer reads the end. Seen (v5.7.5): Close
# throws it away. A message that is written right before Close never arrives, and of 20000 bytes that are written 30
# ms before it, on the loopback device, the peer gets some. Write and Close return nil. The peer is not told of the
# close, so its Read waits until its deadline.
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
	"strings"
	"time"

	"github.com/xtaci/kcp-go/v5"
)

func must(err error) {
	if err != nil {
		fmt.Println("cannot tell:", err)
		os.Exit(77)
	}
}

// session writes size bytes and closes after wait. It returns the bytes that the listener's side reads,
// and the error that ends its reading, within 2 s.
func session(size int, wait time.Duration) (int, error) {
	listener, err := kcp.ListenWithOptions("127.0.0.1:0", nil, 0, 0)
	must(err)
	defer listener.Close()
	conn, err := kcp.DialWithOptions(listener.Addr().String(), nil, 0, 0)
	must(err)
	n, err := conn.Write(make([]byte, size))
	must(err)
	if n != size {
		fmt.Println("changed: Write took", n)
		os.Exit(1)
	}
	time.Sleep(wait)
	must(conn.Close())
	until := time.Now().Add(2 * time.Second)
	must(listener.SetReadDeadline(until))
	peer, err := listener.AcceptKCP()
	if err != nil {
		return 0, err // No packet of the session has come.
	}
	defer peer.Close()
	must(peer.SetReadDeadline(until))
	for total := 0; ; {
		n, err := peer.Read(make([]byte, 65536))
		total += n
		if err != nil {
			return total, err
		}
	}
}

func main() {
	small, err := session(100, 0)
	fmt.Printf("100 bytes, Close at once: %d arrive, then: %v\n", small, err)
	large, err := session(20000, 30*time.Millisecond)
	fmt.Printf("20000 bytes, Close after 30 ms: %d arrive, then: %v\n", large, err)
	if large == 20000 || !strings.Contains(err.Error(), "timeout") {
		fmt.Println("changed")
		os.Exit(1)
	}
	fmt.Println("as told: Close does not deliver, and the peer does not learn of it")
}
GO
export GOFLAGS=-mod=mod
go mod tidy >/dev/null 2>&1
go version
go run .
