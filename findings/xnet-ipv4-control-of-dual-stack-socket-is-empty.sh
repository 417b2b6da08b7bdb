#!/bin/bash
# golang.org/x/net/ipv4 tells of each datagram its destination, interface and TTL, if SetControlMessage asked for
# them. net.ListenUDP("udp") without an address opens one socket for IPv4 and IPv6. Guess: on that socket
# SetControlMessage fails, or the control message of what came by IPv4 is filled. Seen (x/net v0.47.0, Linux
# 6.18): it succeeds, and ReadFrom gives a ControlMessage that is not nil but has no destination, interface 0 and TTL 0, which
# look like values. With "udp4" they are there; on the first socket package ipv6 gives destination and interface,
# of IPv4 datagrams as well. Linux tells the destination of such a socket by IPv6 alone.
# Needs: Go 1.26, golang.org/x/net v0.47.0, IPv6.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module seen

go 1.26

require golang.org/x/net v0.47.0
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	flags4 = ipv4.FlagDst | ipv4.FlagInterface | ipv4.FlagTTL
	flags6 = ipv6.FlagDst | ipv6.FlagInterface
)

func must(err error) {
	if err != nil {
		fmt.Println("changed:", err)
		os.Exit(1)
	}
}

// listen opens a socket, and sends one datagram to it by IPv4, after set.
func listen(network string, set func(net.PacketConn) error) net.PacketConn {
	conn, err := net.ListenUDP(network, nil)
	must(err)
	must(set(conn))
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: conn.LocalAddr().(*net.UDPAddr).Port}
	from, err := net.DialUDP("udp4", nil, to)
	must(err)
	_, err = from.Write([]byte("x"))
	must(err)
	must(conn.SetReadDeadline(time.Now().Add(5 * time.Second)))
	return conn
}

// read4 is what package ipv4 tells of a datagram.
func read4(network string) *ipv4.ControlMessage {
	conn := listen(network, func(c net.PacketConn) error {
		return ipv4.NewPacketConn(c).SetControlMessage(flags4, true)
	})
	defer conn.Close()
	_, cm, _, err := ipv4.NewPacketConn(conn).ReadFrom(make([]byte, 8))
	must(err)
	return cm
}

func main() {
	if l, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback}); err != nil {
		fmt.Println("cannot tell: no IPv6:", err)
		os.Exit(77)
	} else {
		l.Close()
	}
	both, four := read4("udp"), read4("udp4")
	fmt.Println(`ipv4 of "udp4":`, four)
	fmt.Println(`ipv4 of "udp": `, both)
	conn := listen("udp", func(c net.PacketConn) error {
		return ipv6.NewPacketConn(c).SetControlMessage(flags6, true)
	})
	_, six, _, err := ipv6.NewPacketConn(conn).ReadFrom(make([]byte, 8))
	must(err)
	fmt.Println(`ipv6 of "udp": `, six)
	loopback := net.IPv4(127, 0, 0, 1)
	if four == nil || !four.Dst.Equal(loopback) || four.IfIndex == 0 || four.TTL == 0 ||
		six == nil || !six.Dst.Equal(loopback) || six.IfIndex == 0 ||
		both == nil || both.Dst != nil || both.IfIndex != 0 || both.TTL != 0 {
		fmt.Println("changed")
		os.Exit(1)
	}
	fmt.Println("as told: package ipv4 tells nothing of a socket for both families, and no error")
}
GO
export GOFLAGS=-mod=mod
go mod tidy >/dev/null 2>&1
go run .
