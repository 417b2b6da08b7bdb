package conn_test

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// Many Conns at once over a module that has next to nothing to send with: all come to their end.
func TestScarce(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: 8192},
		btl.Config{FragmentsMax: 16, SendBuffers: 64})
	var work sync.WaitGroup
	defer work.Wait()
	const conns = 32
	want := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for range conns {
		c1, c2 := p.dial(t)
		work.Go(func() {
			_, err := io.Copy(c2, c2)
			if err == nil {
				err = c2.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
		work.Go(func() {
			_, err := c1.Write(want)
			if err == nil {
				err = c1.CloseWrite()
			}
			if err != nil {
				t.Error(err)
			}
		})
		work.Go(func() {
			got, err := io.ReadAll(c1)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
			}
			if err := c1.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	gone(t, p.client, p.server)
}
