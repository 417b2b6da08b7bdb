//go:build linux

package shm

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"gobtl/fabric"
)

// ringsResident is how many bytes of mappings of rings this process has in memory, and how many
// such mappings.
func ringsResident(t *testing.T) (bytes, mappings int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ring := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		var kib int
		switch _, err := fmt.Sscanf(line, "Rss: %d kB", &kib); {
		case err == nil && ring:
			bytes += kib << 10
		case strings.Contains(line, "memfd:gobtl-ring"):
			ring = true
			mappings++
		case strings.Contains(line, "-") && !strings.Contains(line, ":  "):
			ring = false // another mapping begins
		}
	}
	return bytes, mappings
}

// TestMemoryOfManyPeers: the rings to 256 peers have what Info says, and take memory as far as
// datagrams have filled them.
func TestMemoryOfManyPeers(t *testing.T) {
	open := func() *domain {
		d := openAny(t, fabric.DomainConfig{Buffers: 64, BufferBytes: 4096})
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	from, to := open(), open()
	out, err := from.OpenEndpoint(fabric.EndpointConfig{TxDepth: 64, RxDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	beforeBytes, before := ringsResident(t)
	for i := range manyPeers {
		in, err := to.OpenEndpoint(fabric.EndpointConfig{TxDepth: 1, RxDepth: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Recv([]fabric.Buf{fabric.Buf(i % 64)}); err != nil {
			t.Fatal(err)
		}
		addr, err := from.Insert(in.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Post([]fabric.Send{{To: addr, Len: 100}}); err != nil {
			t.Fatal(err)
		}
		var c [1]fabric.Completion
		await(t, "a datagram", func() bool {
			n, err := in.Poll(c[:])
			return n > 0 || err != nil
		})
		if c[0].Len != 100 || c[0].Op != fabric.OpRecv {
			t.Fatalf("peer %d got %+v", i, c[0])
		}
	}
	if from.ringBytes != ringsBytes(manyPeers) {
		t.Errorf("%d bytes of rings, told %d", from.ringBytes, ringsBytes(manyPeers))
	}
	told := fmt.Sprintf("%d MiB for rings to %d peers", from.ringBytes>>20, manyPeers)
	ok := false
	for _, a := range from.Info().Attrs {
		ok = ok || a.Name == "memory" && strings.Contains(a.Value, told)
	}
	if !ok {
		t.Errorf("Info does not say %q: %v", told, from.Info().Attrs)
	}
	bytes, after := ringsResident(t)
	const each = 64 << 10 // the header and the first datagrams, with some room for a system's pages
	if got := after - before; got != 2*manyPeers {
		t.Errorf("%d mappings of rings, want %d", got, 2*manyPeers)
	}
	if got := bytes - beforeBytes; got > 2*manyPeers*each || got < 2*manyPeers*headerBytes {
		t.Errorf("%d bytes in memory after a datagram each", got)
	}
}
