package btl

import (
	"fmt"
	"testing"

	"gobtl/btl/internal/meet"
	"gobtl/fabric/mem"
)

// What people read has words, and a value that is none has its number.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{EventConnected, "connected"},
		{EventFailed, "failed"},
		{Event(9), "Event(9)"},
		{Done, "done"},
		{Queued, "queued"},
		{Status(0), "Status(0)"},
		{CompletionSend, "send"},
		{CompletionRoom, "room"},
		{meet.Lingering, "lingering"},
		{meet.State(77), "State(77)"},
	} {
		if got := fmt.Sprint(c.value); got != c.want {
			t.Errorf("%d prints as %q, want %q", c.value, got, c.want)
		}
	}
}

// A peer is named by its owner's label, quoted, for anybody may say anything, and its address.
func TestRemoteName(t *testing.T) {
	for _, label := range []string{"", "store 7", "a\"\n"} {
		b := newBench(t, mem.Config{}, 1, regressConfig())
		cfg := regressConfig()
		cfg.Label = label
		b.mods = append(b.mods, b.open(cfg))
		ep := b.connect(0, 1)
		want := ep.PeerAddress()
		if label != "" {
			want = fmt.Sprintf("%q at %s", label, want)
		}
		if got := ep.RemoteName(); got != want {
			t.Errorf("the peer is %s, want %s", got, want)
		}
	}
}
