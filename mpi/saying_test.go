package mpi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode"

	"gobtl/fabric"
)

// saying is a job of two ranks, whose rank 1 tells a text.
type saying struct {
	Job
	text string
}

func (saying) Rank() int  { return 0 }
func (saying) Size() int  { return 2 }
func (saying) Nodes() int { return 1 }

func (s saying) Exchange(_ context.Context, _ string, value []byte) ([][]byte, error) {
	return [][]byte{value, []byte(s.text)}, nil
}

// What another rank tells at the start moves no cursor where it is shown, and is short.
func TestTextOfRanks(t *testing.T) {
	shown := func(what, text string) {
		t.Helper()
		if len(text) > 1500 || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%s: %d bytes, %.80q", what, len(text), text)
		}
	}
	const bad = `\u001b[2J\u009b\n`
	long := strings.Repeat("x", 50_000)
	n, _, err := chooseNetwork(t.Context(), saying{text: `{"Lack":"` + bad + long + `"}`},
		fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	shown("why there is no shared memory", n.Reason)
	_, _, err = chooseNetwork(t.Context(), saying{text: `{"Provider":"` + bad + long + `"}`},
		fabric.Hints{Provider: "udp"})
	if !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	shown("why the ranks do not agree on a network", err.Error())
	one := `{"From":1,"To":0,"Ends":"` + bad + long + `","Why":"` + bad + long + `"}`
	w := &World{job: saying{text: "[" + one + "]"}}
	missing, err := w.tellMissed(t.Context(), "key", nil)
	if err != nil || len(missing) != 1 {
		t.Fatal(missing, err)
	}
	shown("why a rank is not reached", missedError(missing).Error())
	many := "[" + one + strings.Repeat(","+one, missedMost) + "]"
	if _, err := (&World{job: saying{text: many}}).tellMissed(t.Context(), "key", nil); !errors.Is(err,
		ErrAddress) {
		t.Errorf("more than a rank tells: %v", err)
	}
}
