#!/bin/bash
# Go with GOMAXPROCS 1, as inside an MPI launcher that binds each rank to a core: a loop that is to let
# goroutines that wait for a socket run can yield by runtime.Gosched or by a short time.Sleep. Guess: a sleep
# of 1 us takes a few microseconds, and so is the cheap way. Seen (Go 1.26, Linux 6.18): so it does where a
# socket has something, but while none has, the median sleep takes 1.1 ms, for the scheduler waits in
# epoll_wait, which counts in milliseconds. Gosched takes less than a microsecond, but keeps a reader of UDP
# waiting for some milliseconds, for the scheduler asks its network poller only when it finds nothing to run.
# Needs: Go 1.26 and nothing else.
set -euo pipefail
cd "$(mktemp -d)"
go version
cat >go.mod <<'MOD'
module seen

go 1.26
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// measure yields in a loop and sends to a reader in this process: how long a yield takes, and how
// late the reader is, medians.
func measure(yield func()) (took, late time.Duration) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	to, err := net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
	if err != nil {
		panic(err)
	}
	defer to.Close()
	var readAt atomic.Int64
	begin := time.Now()
	go func() {
		for {
			if _, err := conn.Read(make([]byte, 8)); err != nil {
				return
			}
			readAt.Store(int64(time.Since(begin)))
		}
	}()
	time.Sleep(time.Millisecond) // The reader begins to wait.
	var all, lates []time.Duration
	for range 100 {
		was := readAt.Load()
		sent := time.Since(begin)
		if _, err := to.Write([]byte("x")); err != nil {
			panic(err)
		}
		for readAt.Load() == was {
			start := time.Now()
			yield()
			all = append(all, time.Since(start))
		}
		lates = append(lates, time.Duration(readAt.Load())-sent)
		time.Sleep(2 * time.Millisecond) // The reader waits again.
	}
	slices.Sort(all)
	slices.Sort(lates)
	return all[len(all)/2], lates[len(lates)/2]
}

func main() {
	runtime.GOMAXPROCS(1)
	var idle []time.Duration
	for range 200 {
		start := time.Now()
		time.Sleep(time.Microsecond)
		idle = append(idle, time.Since(start))
	}
	slices.Sort(idle)
	quiet := idle[len(idle)/2]
	fmt.Printf("time.Sleep(1us) while no socket has anything: %v a call\n", quiet)
	sleep, sleepLate := measure(func() { time.Sleep(time.Microsecond) })
	yield, yieldLate := measure(runtime.Gosched)
	fmt.Printf("time.Sleep(1us): %v a call, the reader is %v late\n", sleep, sleepLate)
	fmt.Printf("runtime.Gosched: %v a call, the reader is %v late\n", yield, yieldLate)
	if quiet < 300*time.Microsecond || yieldLate < time.Millisecond {
		fmt.Println("changed")
		os.Exit(1)
	}
	fmt.Println("as told: the sleep takes far longer than it should, and the yield starves the reader")
}
GO
go run .
