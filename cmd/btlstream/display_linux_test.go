package main

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"gobtl/stream"
)

// TestDisplayWidth: what is shown of the rings fits the terminal, however many bytes there are.
func TestDisplayWidth(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	ring, err := stream.NewRing(stream.Geometry{MessageBytes: 100, Regions: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ columns, bytes int }{{80, 9}, {50, 4}, {200, 10}, {31, 1}} {
		size := &unix.Winsize{Row: 24, Col: uint16(c.columns)}
		if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, size); err != nil {
			t.Fatal(err)
		}
		n := displayBytes(tty)
		var out bytes.Buffer
		if err := ring.Display(&out, n, n); err != nil || n != c.bytes {
			t.Errorf("%d columns: %d bytes, want %d: %v", c.columns, n, c.bytes, err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if len(line)-1 > c.columns {
				t.Errorf("%d columns: a line of %d\n%s", c.columns, len(line)-1, out.Bytes())
			}
		}
	}
	if n := displayBytes(&bytes.Buffer{}); n != 10 {
		t.Errorf("without a terminal %d bytes", n)
	}
}
