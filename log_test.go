package gobtl

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gobtl/btl"
	"gobtl/internal/bounded"
)

// TestLogOfPeers checks that peers that connect again and again do not fill Config.Log.
func TestLogOfPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := &Node{cfg: Config{Log: slog.New(slog.NewTextHandler(&out, nil))}}
		l := &Link{node: n}
		for i := range 1000 {
			p := &Peer{link: l, address: fmt.Sprintf("192.0.2.66:%d", i), connected: true}
			l.logEvent(p, btl.EventConnected, nil)
		}
		time.Sleep(time.Second)
		l.logEvent(&Peer{link: l, address: "192.0.2.1:1", connected: true}, btl.EventConnected, nil)
		const left = 1000 - bounded.LinesPerSecond
		if lines := strings.Count(out.String(), "\n"); lines != bounded.LinesPerSecond+1 ||
			!strings.Contains(out.String(), fmt.Sprint(left, " more")) ||
			!strings.Contains(out.String(), "192.0.2.1:1") {
			t.Errorf("%d lines: %s", lines, out.String())
		}
	})
}
