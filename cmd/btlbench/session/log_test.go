package session

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gobtl/internal/bounded"
)

// TestLogOfClients checks that refused clients do not fill the log of a server.
func TestLogOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		s := NewServer(Options{}, ServerConfig{Clients: 1, Log: func(format string, args ...any) {
			lines = append(lines, fmt.Sprintf(format, args...))
		}})
		for range 1000 {
			s.log("client %v refused: %v", "192.0.2.66", "no")
		}
		time.Sleep(time.Second)
		s.log("client %v", "192.0.2.1")
		const left = 1000 - bounded.LinesPerSecond
		if n := len(lines); n != bounded.LinesPerSecond+1 ||
			!strings.HasPrefix(lines[n-1], fmt.Sprint(left, " more")) ||
			!strings.HasSuffix(lines[n-1], "client 192.0.2.1") {
			t.Errorf("%d lines: %q", n, lines)
		}
	})
}
