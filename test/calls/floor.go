package main

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// The floor is the performance of plain requests and replies over UDP sockets. It has no
// retransmission and no protection against other peers, and a lost datagram ends the measurement.
// With ACKs each reply is acknowledged by a datagram, as a reliable transport would do for a single
// reply.
//
//	id, 8 bytes | index, 4 bytes | count, 4 bytes; 0: an ACK | up to floorBytes of the message
const (
	floorHead  = 16
	floorBytes = 60_000
	floorRoom  = 4 << 20 // of a socket
	floorLimit = 5 * time.Second
)

var floors = []*system{
	{"udp", "floor: bare UDP", serveFloor, dialFloor(false)},
	{"udp-ack", "floor: bare UDP, ACKs", serveFloor, dialFloor(true)},
}

// whole assembles messages from received parts.
type whole struct {
	msg  []byte
	left int
}

// take accepts a datagram, and returns the message that the datagram completes.
func take(parts map[uint64]*whole, datagram []byte) (id uint64, msg []byte, ok bool) {
	if len(datagram) < floorHead {
		return 0, nil, false
	}
	id = binary.LittleEndian.Uint64(datagram)
	index := int(binary.LittleEndian.Uint32(datagram[8:]))
	count := int(binary.LittleEndian.Uint32(datagram[12:]))
	body := datagram[floorHead:]
	switch {
	case count == 0:
		return id, nil, false
	case count == 1:
		return id, append([]byte(nil), body...), true
	}
	w := parts[id]
	if w == nil {
		w = &whole{make([]byte, 0, count*floorBytes), count}
		parts[id] = w
	}
	at := index * floorBytes
	w.msg = w.msg[:max(len(w.msg), at+len(body))]
	copy(w.msg[at:], body)
	if w.left--; w.left > 0 {
		return id, nil, false
	}
	delete(parts, id)
	return id, w.msg, true
}

// put sends a message by write.
func put(id uint64, msg []byte, write func(datagram []byte) error) error {
	count := max(1, (len(msg)+floorBytes-1)/floorBytes)
	datagram := make([]byte, floorHead+min(len(msg), floorBytes))
	binary.LittleEndian.PutUint64(datagram, id)
	binary.LittleEndian.PutUint32(datagram[12:], uint32(count))
	for i := range count {
		binary.LittleEndian.PutUint32(datagram[8:], uint32(i))
		n := copy(datagram[floorHead:], msg[i*floorBytes:])
		if err := write(datagram[:floorHead+n]); err != nil {
			return err
		}
	}
	return nil
}

func serveFloor() (string, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", err
	}
	if err := errors.Join(c.SetReadBuffer(floorRoom), c.SetWriteBuffer(floorRoom)); err != nil {
		return "", err
	}
	go func() {
		parts, buf := map[uint64]*whole{}, make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if id, msg, ok := take(parts, buf[:n]); ok {
				go answerFloor(c, from, id, msg)
			}
		}
	}()
	return c.LocalAddr().String(), nil
}

func answerFloor(c *net.UDPConn, to netip.AddrPort, id uint64, request []byte) {
	_ = put(id, reply(request), func(d []byte) error { // Who gets no answer tells.
		_, err := c.WriteToUDPAddrPort(d, to)
		return err
	})
}

type floorCaller struct {
	c    *net.UDPConn
	acks bool

	mu    sync.Mutex
	id    uint64
	waits map[uint64]chan []byte
}

func dialFloor(acks bool) func(string) (caller, error) {
	return func(addr string) (caller, error) {
		to, err := net.ResolveUDPAddr("udp4", addr)
		if err != nil {
			return nil, err
		}
		c, err := net.DialUDP("udp4", nil, to)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(c.SetReadBuffer(floorRoom), c.SetWriteBuffer(floorRoom)); err != nil {
			return nil, err
		}
		f := &floorCaller{c: c, acks: acks, waits: map[uint64]chan []byte{}}
		go f.read()
		return f, nil
	}
}

// read reads replies until the socket is closed.
func (f *floorCaller) read() {
	parts, buf, ack := map[uint64]*whole{}, make([]byte, 1<<16), make([]byte, floorHead)
	for {
		n, err := f.c.Read(buf)
		if err != nil {
			return
		}
		id, msg, ok := take(parts, buf[:n])
		if !ok {
			continue
		}
		if f.acks {
			if _, err := f.c.Write(ack); err != nil {
				return
			}
		}
		f.mu.Lock()
		wait := f.waits[id]
		delete(f.waits, id)
		f.mu.Unlock()
		if wait != nil {
			wait <- msg
		}
	}
}

func (f *floorCaller) call(request []byte) ([]byte, error) {
	wait := make(chan []byte, 1)
	f.mu.Lock()
	f.id++
	id := f.id
	f.waits[id] = wait
	f.mu.Unlock()
	err := put(id, request, func(d []byte) error {
		_, err := f.c.Write(d)
		return err
	})
	if err != nil {
		return nil, err
	}
	select {
	case answer := <-wait:
		return answer, nil
	case <-time.After(floorLimit):
		return nil, errors.New("a datagram was lost")
	}
}

func (f *floorCaller) close() error { return f.c.Close() }
