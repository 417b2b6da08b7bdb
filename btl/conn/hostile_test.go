package conn_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// The kinds of messages, from doc.go.
const (
	opens = iota + 1
	accept
	refuse
	data
	credit
	fin
	stop
	reset
)

// message is one with an id of the sender's.
func message(kind byte, id uint32, value uint64, body string) []byte {
	b := make([]byte, 16, 16+len(body))
	b[0], b[1] = kind, 1
	binary.LittleEndian.PutUint32(b[4:], id)
	binary.LittleEndian.PutUint64(b[8:], value)
	return append(b, body...)
}

// What does not keep to the rules ends the endpoint, and nothing else; what is late does not.
func TestHostile(t *testing.T) {
	const window = 4096
	hello := message(opens, 1, window, "service")
	gaps := [][]byte{hello}
	for i := range 200 {
		gaps = append(gaps, message(data, 1, uint64(2*i+1), "x"))
	}
	long := make([]byte, 300)
	for name, c := range map[string]struct {
		messages [][]byte
		lives    bool
	}{
		"short":       {[][]byte{hello[:15]}, false},
		"no kind":     {[][]byte{message(0, 1, 0, "")}, false},
		"other kind":  {[][]byte{message(reset+1, 1, 0, "")}, false},
		"flags":       {[][]byte{{data, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'x'}}, false},
		"long name":   {[][]byte{message(opens, 1, window, string(long))}, false},
		"open twice":  {[][]byte{hello, hello}, false},
		"own accept":  {[][]byte{hello, message(accept, 1, 0, "")}, false},
		"reset to":    {[][]byte{hello, message(reset, 1, 1, "")}, false},
		"no data":     {[][]byte{hello, message(data, 1, 0, "")}, false},
		"twice":       {[][]byte{hello, message(data, 1, 0, "ab"), message(data, 1, 1, "b")}, false},
		"early twice": {[][]byte{hello, message(data, 1, 9, "abc"), message(data, 1, 8, "ab")}, false},
		"into early":  {[][]byte{hello, message(data, 1, 3, "abc"), message(data, 1, 0, "0123")}, false},
		"beyond":      {[][]byte{hello, message(data, 1, window-1, "ab")}, false},
		"far beyond":  {[][]byte{hello, message(data, 1, 1<<64-1, "ab")}, false},
		"gaps":        {gaps, false},
		"fin beyond":  {[][]byte{hello, message(fin, 1, window+1, "")}, false},
		"fin before":  {[][]byte{hello, message(data, 1, 3, "x"), message(fin, 1, 3, "")}, false},
		"fin twice":   {[][]byte{hello, message(fin, 1, 9, ""), message(fin, 1, 9, "")}, false},
		"after fin":   {[][]byte{hello, message(fin, 1, 1, ""), message(data, 1, 1, "x")}, false},
		"unknown": {[][]byte{
			message(data, 7, 0, "x"), message(credit, 7, 9, ""), message(fin, 7, 0, ""),
			message(stop, 7, 0, ""), message(reset, 7, 0, ""),
		}, true},
		"reset":      {[][]byte{hello, message(reset, 1, 0, ""), message(data, 1, 0, "x")}, true},
		"last byte":  {[][]byte{hello, message(data, 1, 4095, "x"), message(fin, 1, window, "")}, true},
		"less":       {[][]byte{hello, message(credit, 1, 0, ""), message(credit, 1, 1<<64-1, "")}, true},
		"no service": {[][]byte{message(opens, 1, window, "other")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := overNetwork(t, conn.Config{WindowBytes: window})
			for _, m := range c.messages {
				if err := p.client.run.SendBuffered(t.Context(), p.ep, tag, m); err != nil {
					break // It has ended before.
				}
			}
			err := p.client.run.Flush(t.Context(), p.ep)
			if c.lives {
				must(t, err)
			}
			if !c.lives {
				ended(t, p)
			}
			other, err := p.server.run.Connect(t.Context(), p.client.name)
			if err == nil {
				_, err = p.server.Dial(t.Context(), other, "nothing")
			}
			if c.lives && !errors.Is(err, conn.ErrService) {
				t.Fatal(err)
			}
		})
	}
}

// ended waits until the server has no endpoint of the client's.
func ended(t *testing.T, p *pair) {
	t.Helper()
	for began := time.Now(); p.server.run.Stats().Endpoints > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the endpoint lives")
		}
	}
	gone(t, p.server)
}

// Nothing that is sent at random breaks more than its endpoint.
func TestHostileRandom(t *testing.T) {
	seed := testenv.Seed(t, 0)
	random := rand.New(rand.NewPCG(seed, 2))
	network := mem.New(mem.Config{})
	p := newPair(t, within(network), conn.Config{WindowBytes: 4096}, btl.Config{})
	for range 200 {
		ep, err := p.client.run.Connect(t.Context(), p.server.name)
		must(t, err)
		sent := p.client.run.SendBuffered(t.Context(), ep, tag, message(opens, 1, 100, "service"))
		for range 1 + random.IntN(20) {
			m := message(byte(random.IntN(9)), uint32(random.IntN(3)), uint64(random.IntN(5000)),
				string(make([]byte, random.IntN(3)*random.IntN(300))))
			m[1] = byte(random.IntN(2))
			if sent == nil {
				sent = p.client.run.SendBuffered(t.Context(), ep, tag, m)
			}
		}
		_ = p.client.run.Do(t.Context(), func(*btl.Module) error { ep.Abort(); return nil })
	}
	ended(t, p)
	var err error
	p.ep, err = p.client.run.Connect(t.Context(), p.server.name)
	must(t, err)
	must(t, p.listener.Close())
	p.listener, err = p.server.Listen("service")
	must(t, err)
	c1, c2 := p.dial(t)
	if _, err := c1.Write([]byte("whole")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if n, err := c2.Read(b); string(b[:n]) != "whole" {
		t.Fatal(n, err)
	}
}
