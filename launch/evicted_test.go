//go:build unix

package launch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"gobtl/launch/pmi"
)

// Rank 0 makes room by closing the oldest connection of the host with the most connections, and not
// the oldest one of all.
func TestRoomByHost(t *testing.T) {
	r := &rendezvous{size: 2}
	add := func(host string) net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close(); far.Close() })
		r.strangers = append(r.strangers, stranger{conn: near, host: host})
		return near
	}
	rank := add("rank")
	crowded := add("crowd")
	other := add("other")
	for len(r.strangers) < strangersMax+r.size {
		add("crowd")
	}
	for range 20 * strangersMax {
		if !r.makeRoom("another") {
			t.Fatal("no room after the minimum time")
		}
		if crowded != nil && r.isStranger(crowded) {
			t.Fatal("the oldest connection of the crowd is left")
		}
		crowded = nil
		add("crowd")
	}
	if !r.isStranger(rank) || !r.isStranger(other) {
		t.Error("a connection of a host with one connection was closed for those of a crowd")
	}
	for i := range r.strangers {
		r.strangers[i].safe = soon(time.Hour)
	}
	if r.makeRoom("another") {
		t.Error("a connection was closed before its minimum time")
	}
	places := len(r.strangers)
	for n := range 3 * strangersMax {
		if !r.makeRoom("crowd") {
			t.Fatalf("connection %d of the crowd delays the connections behind it", n)
		}
		add("crowd")
		r.strangers[places-1].safe = soon(time.Hour)
		if !r.isStranger(rank) || !r.isStranger(other) || len(r.strangers) != places {
			t.Fatalf("connection %d of the crowd displaced a connection of another host", n)
		}
	}
}

// handed is a listener to which a test hands connections.
type handed struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (h handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}
func (h handed) Close() error   { close(h.closed); return nil }
func (h handed) Addr() net.Addr { return &net.TCPAddr{} }

// fromConn is a connection from a chosen address.
type fromConn struct {
	net.Conn
	from net.Addr
}

func (c fromConn) RemoteAddr() net.Addr { return c.from }

// TestRoomByNetwork: the connections from one IPv6 network of 64 bits count as those of one host,
// because one host can use all addresses of such a network.
func TestRoomByNetwork(t *testing.T) {
	const size = 2
	server, err := pmi.NewServer(pmi.Config{Size: size, Name: "job"})
	if err != nil {
		t.Fatal(err)
	}
	l := handed{make(chan net.Conn), make(chan struct{})}
	at := meeting{network: "tcp", secret: []byte("x"), name: "job"}
	r := newRendezvous(at, server, size, time.Minute, l)
	defer r.close()
	counts := make(map[string]int)
	for i, ip := range []string{"2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"} {
		near, far := net.Pipe()
		defer far.Close()
		l.conns <- fromConn{near, &net.TCPAddr{IP: net.ParseIP(ip), Port: 4000 + i}}
		if _, err := far.Read(make([]byte, 1)); err != nil { // the challenge: it is registered
			t.Fatal(err)
		}
		r.lock.Lock()
		counts[r.strangers[len(r.strangers)-1].host]++
		r.lock.Unlock()
	}
	if len(counts) != 2 {
		t.Errorf("connections of two networks are of the hosts %v", counts)
	}
}

// held is a listener whose first connection hands the proof of a rank on only when the channel
// evicted is closed. The connection closes the channel read when the proof has arrived.
type held struct {
	net.Listener
	read, evicted chan struct{}
	later         bool // the first connection is accepted
}

type heldConn struct {
	net.Conn
	of *held
}

func (h *held) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil || h.later {
		return conn, err
	}
	h.later = true
	return heldConn{conn, h}, nil
}

func (c heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.of.read:
	default:
		close(c.of.read)
		<-c.of.evicted
	}
	return n, err
}

// TestEvictedDuringProof: strangers of the host of a rank connect while rank 0 checks the proof of
// this rank. Rank 0 closes the connection of the rank in favour of the strangers. The rank dials
// again, and the job goes on.
func TestEvictedDuringProof(t *testing.T) {
	const size = 2
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := meeting{network: "tcp", address: listener.Addr().String(), name: "job", secret: []byte("s")}
	server, err := pmi.NewServer(pmi.Config{Size: size, Name: "job"})
	if err != nil {
		t.Fatal(err)
	}
	l := &held{Listener: listener, read: make(chan struct{}), evicted: make(chan struct{})}
	r := newRendezvous(at, server, size, time.Minute, l)
	defer r.close()
	goOn := sync.OnceFunc(func() { close(l.evicted) })
	defer goOn()
	j := &Job{rank: 1, cfg: Config{Timeout: 20 * time.Second}}
	joined := make(chan error, 1)
	go func() { joined <- j.reach(t.Context(), at) }()
	select {
	case <-l.read:
	case err := <-joined:
		t.Fatal("no proof arrives:", err)
	}
	r.lock.Lock()
	proving := r.strangers[0]
	for len(r.strangers) < strangersMax+size {
		near, far := net.Pipe()
		defer far.Close()
		r.strangers = append(r.strangers, stranger{conn: near, host: proving.host})
	}
	r.lock.Unlock()
	if !r.makeRoom(proving.host) || r.isStranger(proving.conn) {
		t.Fatal("the connection of the rank is not closed for strangers")
	}
	goOn()
	if err := <-joined; err != nil {
		t.Error("the rank does not join:", err)
	}
	defer j.link.close(nil)
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.why != nil {
		t.Error("the job has ended:", r.why)
	}
}

// A rank whose connection ends before rank 0 has proven itself dials again. The connections end
// before the challenge, and after the rank's proof.
func TestRankDialsAgain(t *testing.T) {
	address := port(t)
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	go func() {
		for n := 0; ; n++ {
			conn, err := relay.Accept()
			if err != nil {
				return
			}
			switch {
			case n < 6 && n%3 > 0:
				conn.Close()
			case n < 6:
				fmt.Fprint(conn, "cmd=challenge nonce=x\n")
				_, _ = conn.Read(make([]byte, 1))
				conn.Close()
			default:
				go forward(conn, address)
			}
		}
	}()
	envs := ompiEnvs(t, 2, RendezvousVariable+"="+address)
	first := make(chan error, 1)
	go func() {
		j, err := Join(t.Context(), Config{Environ: envs[0]})
		if err == nil {
			err = j.Finalize(t.Context())
		}
		first <- err
	}()
	envs[1] = append(envs[1], RendezvousVariable+"="+relay.Addr().String())
	j, err := Join(t.Context(), Config{Environ: envs[1]})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Finalize(t.Context()), <-first); err != nil {
		t.Error(err)
	}
}

// forward relays a connection to an address, at which somebody may listen only later.
func forward(conn net.Conn, address string) {
	defer conn.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		defer to.Close()
		_, _ = io.Copy(to, conn)
	})
	_, _ = io.Copy(conn, to)
	conn.Close()
	ended.Wait()
}
