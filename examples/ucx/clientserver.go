package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/btl/runner"
	"gobtl/pml"
)

const (
	tagData uint64 = 0xcafe
	tagFin  uint64 = 0xf1 // how many messages were right, in 8 bytes
	idData  uint16 = 0
	service        = "ucx"
)

// clientServer is client_server: the client sends messages, the server checks them, and tells how
// many were right.
func clientServer(o *options) (err error) {
	var right int
	switch {
	case o.pieces == 0:
		return fmt.Errorf("%w: no pieces", errUsage)
	case o.how == "stream":
		right, err = byStream(o)
	case o.how == "tag" || o.how == "am":
		right, err = byLayer(o)
	default:
		return fmt.Errorf("%w: -c %q", errUsage, o.how)
	}
	if err != nil {
		return err
	}
	if right != o.count {
		return fmt.Errorf("%d of %d messages were right", right, o.count)
	}
	fmt.Printf("%s: %d messages of %d bytes were right\n", o.how, right, o.size*o.pieces)
	return nil
}

// message is the number-th one, in pieces.
func message(o *options, number int) pieces {
	p := make(pieces, o.pieces)
	for i := range p {
		p[i] = make([]byte, o.size)
		for j := range p[i] {
			p[i][j] = byte(number*31 + i*7 + j)
		}
	}
	return p
}

// isRight reports whether a message has the expected content.
func isRight(o *options, number int, data []byte) bool {
	want := make([]byte, o.size*o.pieces)
	message(o, number).Gather(want, 0)
	return string(want) == string(data)
}

// byLayer is client_server with tags and active messages.
func byLayer(o *options) (right int, err error) {
	w, err := meetByLayer(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var fin [8]byte
	if o.server == "" {
		if right, err = w.serve(o); err != nil {
			return right, err
		}
		binary.LittleEndian.PutUint64(fin[:], uint64(right))
		return right, w.send(tagFin, fin[:])
	}
	for i := range o.count {
		r := pml.Request{Layout: message(o, i)}
		if o.how == "tag" {
			err = w.l.Send(w.now(), &r, w.peer, tagData, nil, pml.Standard)
		} else {
			number := binary.LittleEndian.AppendUint64(nil, uint64(i))
			err = w.l.SendActive(w.now(), &r, w.peer, idData, number, nil, pml.Standard)
		}
		if err == nil {
			err = w.wait(&r)
		}
		if err != nil {
			return 0, err
		}
	}
	_, err = w.recv(tagFin, fin[:])
	return int(binary.LittleEndian.Uint64(fin[:])), err
}

// serve receives all messages, and counts those that are right.
func (w *worker) serve(o *options) (right int, err error) {
	room := make([]byte, o.size*o.pieces)
	came := 0
	count := func(number int, data []byte) {
		came++
		if isRight(o, number, data) {
			right++
		}
	}
	if o.how == "tag" {
		for i := range o.count {
			n, err := w.recv(tagData, room)
			if err != nil {
				return right, err
			}
			count(i, room[:n])
		}
		return right, nil
	}
	failed := error(nil)
	w.l.HandleActive(idData, func(now btl.Time, m *pml.Message) {
		number := came
		if len(m.Header()) == 8 {
			number = int(binary.LittleEndian.Uint64(m.Header()))
		}
		if !m.Announced() {
			count(number, m.Data())
			return
		}
		// The client waits for each that is announced, so there is one at a time.
		r := &pml.Request{OnDone: func(r *pml.Request) {
			failed = errors.Join(failed, r.Err())
			count(number, room[:r.Len()])
		}}
		failed = errors.Join(failed, w.l.RecvMessage(now, r, m, room))
	})
	err = w.until(func() bool { return came == o.count || failed != nil })
	return right, errors.Join(err, failed)
}

// byStream is client_server with a stream of bytes.
func byStream(o *options) (right int, err error) {
	m, other, err := meet(o)
	if err != nil {
		return 0, err
	}
	node, err := conn.New(m, conn.Config{Tag: 1})
	if err != nil {
		return 0, errors.Join(err, m.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	runner := node.Start(runner.Config{}, nil)
	defer func() { err = errors.Join(err, node.Close(ctx), runner.Close(ctx)) }()
	l, err := node.Listen(service)
	if err != nil {
		return 0, err
	}
	if o.server == "" {
		// A client that has met this side may be gone before it dials.
		late := time.AfterFunc(patience, func() { _ = l.Close() })
		c, err := l.Accept()
		if !late.Stop() && err != nil {
			err = fmt.Errorf("nobody dials within %v: %w", patience, err)
		}
		if err != nil {
			return 0, err
		}
		return checkStream(o, c)
	}
	ep, err := runner.Connect(ctx, other)
	if err != nil {
		return 0, err
	}
	c, err := dial(ctx, node, ep)
	if err != nil {
		return 0, err
	}
	return writeStream(o, c)
}

// dial connects to the server, which may not listen yet.
func dial(ctx context.Context, node *conn.Node, ep *btl.Endpoint) (*conn.Conn, error) {
	for {
		c, err := node.Dial(ctx, ep, service)
		if !errors.Is(err, conn.ErrService) && !errors.Is(err, btl.ErrNoHandler) {
			return c, err
		}
		time.Sleep(time.Millisecond)
	}
}

// checkStream is the server's side.
func checkStream(o *options, c net.Conn) (right int, err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	room := make([]byte, o.size*o.pieces)
	for i := range o.count {
		if _, err := io.ReadFull(c, room); err != nil {
			return right, err
		}
		if isRight(o, i, room) {
			right++
		}
	}
	_, err = c.Write(binary.LittleEndian.AppendUint64(nil, uint64(right)))
	return right, err
}

// writeStream is the client's side.
func writeStream(o *options, c net.Conn) (right int, err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	for i := range o.count {
		all := net.Buffers(message(o, i))
		if _, err := all.WriteTo(c); err != nil {
			return 0, err
		}
	}
	var fin [8]byte
	_, err = io.ReadFull(c, fin[:])
	return int(binary.LittleEndian.Uint64(fin[:])), err
}

// pieces is a message that does not lie in one piece: a layout of package pml.
type pieces [][]byte

// Bytes is how many there are.
func (p pieces) Bytes() (n int) {
	for _, b := range p {
		n += len(b)
	}
	return n
}

// Gather copies them, from byte at on.
func (p pieces) Gather(to []byte, at int) {
	for len(to) > 0 {
		n := copy(to, p.Run(at))
		to, at = to[n:], at+n
	}
}

// Scatter copies to where they lie, from byte at on.
func (p pieces) Scatter(from []byte, at int) {
	for len(from) > 0 {
		n := copy(p.Run(at), from)
		from, at = from[n:], at+n
	}
}

// Run is the piece of a byte, from there on.
func (p pieces) Run(at int) []byte {
	for _, b := range p {
		if at < len(b) {
			return b[at:]
		}
		at -= len(b)
	}
	return nil
}
