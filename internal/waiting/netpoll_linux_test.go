package waiting

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestCedeSockets checks a process whose only processor belongs to a waiting thread. A goroutine
// that waits for a socket must run within some yields, before the monitor of Go's runtime looks.
func TestCedeSockets(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer Enter()()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	to, err := net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	var got atomic.Int32
	go func() {
		var b [8]byte
		for {
			if _, err := conn.Read(b[:]); err != nil {
				return
			}
			got.Add(1)
		}
	}()
	Cede() // The reader begins to wait.
	const rounds = 20
	late := 0
	for i := range int32(rounds) {
		if _, err := to.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		yields := 0
		for ; got.Load() == i; yields++ {
			Cede()
		}
		if yields > 2*netpollEvery {
			late++
		}
	}
	if late > rounds/4 {
		t.Errorf("%d of %d datagrams were read after more than %d yields", late, rounds, 2*netpollEvery)
	}
}
