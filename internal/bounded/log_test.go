package bounded

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestLogBlocked: a caller does not wait for a writer that accepts nothing. Each line is written
// later or counted.
func TestLogBlocked(t *testing.T) {
	const lines = 10_000
	from, to := io.Pipe()
	l := NewLog(to, "program")
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for i := range lines {
			l.Line(fmt.Sprint("line ", i))
			if _, err := l.Write([]byte("\r50 %\n")); err != nil { // of a progress bar
				t.Error(err)
			}
		}
	}()
	select {
	case <-logged:
	case <-time.After(patience):
		t.Fatal("a line waits for the writer")
	}
	go func() {
		l.Close()
		_ = to.Close() // never fails
	}()
	written, dropped := 0, 0
	for in := bufio.NewScanner(from); in.Scan(); {
		var n int
		switch _, err := fmt.Sscanf(in.Text(), "program: %d lines dropped here", &n); {
		case err == nil:
			dropped += n
		case strings.HasPrefix(in.Text(), "program: line "):
			written++
		}
	}
	if written == 0 || written > logLinesMax+1 || written+dropped != lines {
		t.Errorf("%d lines written, %d dropped, of %d", written, dropped, lines)
	}
	l.Line("after the end") // must not panic
}
