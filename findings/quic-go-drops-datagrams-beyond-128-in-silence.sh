#!/bin/bash
# quic-go sends datagrams of QUIC (RFC 9221). They may be lost, but QUIC knows which packets were. Guess: on a path
# that loses nothing, to a receiver that is late, they arrive, or the sender is held back, or a count tells. Seen
# (v0.65.0): the receiver keeps the first 128 that nobody has taken and drops all others. SendDatagram returns nil,
# and ConnectionStats has no lost packet on either side. A reader that pauses for a moment so loses the newest ones.
# Needs: Go 1.26, and the module in the version below.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module seen

go 1.26

require github.com/quic-go/quic-go v0.65.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

func must(err error) {
	if err != nil {
		fmt.Println("cannot tell:", err)
		os.Exit(77)
	}
}

func certificate() tls.Certificate {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	must(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	config := &quic.Config{EnableDatagrams: true}
	listener, err := quic.ListenAddr("127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"seen"}}, config)
	must(err)
	sender, err := quic.DialAddr(ctx, listener.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"seen"}}, config)
	must(err)
	receiver, err := listener.Accept(ctx)
	must(err)
	time.Sleep(100 * time.Millisecond) // The handshake is confirmed.
	const count = 500
	for i := range count {
		must(sender.SendDatagram(binary.BigEndian.AppendUint32(nil, uint32(i))))
		if i%10 == 9 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	time.Sleep(500 * time.Millisecond) // All have arrived, or never will.
	arrived, last := 0, uint32(0)
	for {
		wait, done := context.WithTimeout(ctx, 500*time.Millisecond)
		data, err := receiver.ReceiveDatagram(wait)
		done()
		if err != nil {
			break
		}
		arrived++
		last = binary.BigEndian.Uint32(data)
	}
	lost := sender.ConnectionStats().PacketsLost + receiver.ConnectionStats().PacketsLost
	fmt.Printf("%d sent, %d read, the last is number %d; packets lost: %d\n", count, arrived, last, lost)
	if lost != 0 {
		fmt.Println("cannot tell: packets were lost")
		os.Exit(77)
	}
	if arrived != 128 || last != 127 {
		fmt.Println("changed")
		os.Exit(1)
	}
	fmt.Println("as told: what is not read in time is dropped beyond 128, and nothing counts it")
}
GO
export GOFLAGS=-mod=mod
go mod tidy >/dev/null 2>&1
go version
go run .
