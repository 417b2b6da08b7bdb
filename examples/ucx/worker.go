package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/shm"
	_ "gobtl/fabric/udp" // the providers that this program uses
	"gobtl/pml"
)

const (
	// patience is how long the other side may take to appear, and to answer.
	patience = 20 * time.Second
	// nameMost bounds the name of a module, in bytes.
	nameMost = 1 << 10
)

// meet opens a module and exchanges its name with the other side's, over a TCP connection: the
// server waits for one.
func meet(o *options) (m *btl.Module, other []byte, err error) {
	tcp, err := reach(o)
	if err != nil {
		return nil, nil, err
	}
	defer tcp.Close() // It has only been read from since what was written was flushed.
	if err := tcp.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, nil, err
	}
	node, _, err := net.SplitHostPort(tcp.LocalAddr().String())
	if err != nil {
		return nil, nil, err
	}
	if m, err = open(o.transport, node); err != nil {
		return nil, nil, err
	}
	if other, err = exchange(tcp, m.Name()); err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return m, other, nil
}

// reach is a TCP connection with the other side.
func reach(o *options) (net.Conn, error) {
	port := strconv.Itoa(o.port)
	if o.server != "" {
		return net.DialTimeout("tcp", net.JoinHostPort(o.server, port), patience)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.listen, port))
	if err != nil {
		return nil, err
	}
	defer l.Close() // Others are refused from now on.
	fmt.Println("listening at", l.Addr())
	return l.Accept()
}

// exchange tells a name, and reads the other one.
func exchange(tcp io.ReadWriter, name []byte) (other []byte, err error) {
	if _, err := tcp.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(name))),
		name...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(tcp, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > nameMost {
		return nil, fmt.Errorf("a name of %d bytes", n)
	}
	other = make([]byte, n)
	_, err = io.ReadFull(tcp, other)
	return other, err
}

// open opens a module of a transport, at an address if that has any.
func open(transport, node string) (*btl.Module, error) {
	hints := fabric.Hints{Provider: transport}
	if transport == "udp" {
		hints.Node = node
	}
	infos, err := fabric.GetInfo(hints)
	if err != nil {
		return nil, err
	}
	cfg := btl.Config{PeerTimeout: time.Second, KeepAlive: 200 * time.Millisecond}
	buffers, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, err
	}
	domain, err := fabric.Open(infos[0], buffers)
	if err != nil {
		return nil, err
	}
	return btl.Open(domain, cfg)
}

// worker is one side with its layer, which belongs to the goroutine that calls until.
type worker struct {
	m     *btl.Module
	l     *pml.Layer
	peer  *pml.Peer
	start time.Time
	sleep bool
}

// meetByLayer is meet, with a layer over the module.
func meetByLayer(o *options) (*worker, error) {
	m, other, err := meet(o)
	if err != nil {
		return nil, err
	}
	w := &worker{m: m, start: time.Now(), sleep: o.sleep}
	if w.l, err = pml.New(m, pml.Config{Tag: 1}, nil); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	ep, err := m.Connect(w.now(), other)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	w.peer = w.l.Peer(ep)
	return w, nil
}

func (w *worker) now() btl.Time { return btl.Time(time.Since(w.start)) + 1 }

// until drives the module until something is done. Errors: the peer's end, or that it takes too
// long.
func (w *worker) until(done func() bool) error {
	for end := time.Now().Add(patience); ; {
		if _, err := w.l.Progress(w.now()); err != nil {
			return err
		}
		switch {
		case done():
			return nil
		case w.peer.Err() != nil:
			return w.peer.Err()
		case time.Now().After(end):
			return os.ErrDeadlineExceeded
		case w.sleep:
			// What is due now makes it no wait at all.
			left := min(time.Duration(w.l.Deadline()-w.now()), time.Second)
			if err := w.m.Wait(max(left, 0)); err != nil {
				return err
			}
		default:
			runtime.Gosched()
		}
	}
}

// wait drives the module until a request is done.
func (w *worker) wait(r *pml.Request) error {
	if err := w.until(r.Done); err != nil {
		return err
	}
	return r.Err()
}

// send sends a message and waits until it is received.
func (w *worker) send(tag uint64, data []byte) error {
	var r pml.Request
	if err := w.l.Send(w.now(), &r, w.peer, tag, data, pml.Synchronous); err != nil {
		return err
	}
	return w.wait(&r)
}

// recv receives a message, and returns its size.
func (w *worker) recv(tag uint64, into []byte) (int, error) {
	var r pml.Request
	if err := w.l.Recv(w.now(), &r, w.peer, tag, ^uint64(0), into); err != nil {
		return 0, err
	}
	err := w.wait(&r)
	return r.Len(), err
}

// close closes the connection in order, and the module.
func (w *worker) close() error {
	end := time.Now().Add(time.Second)
	w.m.Drain(w.now(), w.now().Add(time.Second))
	for !w.m.Drained() && time.Now().Before(end) {
		if _, err := w.l.Progress(w.now()); err != nil {
			break // The fabric is broken, so nothing more can be said.
		}
		runtime.Gosched()
	}
	return w.m.Close()
}
