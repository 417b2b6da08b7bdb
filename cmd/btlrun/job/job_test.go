//go:build unix

package job

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gobtl/cmd/btlrun/agent"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":          "[0 0 0 0 0 0 0]",
		"a":         "[0 0 0 0 0 0 0]",
		"a,b":       "[0 1 0 1 0 1 0]",
		"a:2,b:1,c": "[0 0 1 2 0 0 1]",
		"a:9,b":     "[0 0 0 0 0 0 0]",

		"[::1]:2,[fe80::1%eth0]": "[0 0 1 0 0 1 0]",
	} {
		hosts, err := ParseHosts(text)
		if got := fmt.Sprint(place(hosts, 7)); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{
		",", "a,", "[::1]2", "[]", "[::1", "[-x]",
		"a,a", "a:0", "a:x", "a:-1", ":2", "-oProxyCommand=x", "a b",
	} {
		if hosts, err := ParseHosts(bad); !errors.Is(err, ErrHosts) {
			t.Errorf("%q: %v, %v", bad, hosts, err)
		}
	}
	for text, local := range map[string]bool{"": true, "localhost": true, "elsewhere": false} {
		if hosts, err := ParseHosts(text); err != nil || hosts[0].Local != local {
			t.Errorf("%q: %+v, %v", text, hosts, err)
		}
	}
}

func TestCleanEnv(t *testing.T) {
	t.Parallel()
	env := []string{
		"PATH=/bin", "PMI_FD=3", "PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=1", "OMPI_MCA_btl=tcp",
		"MPI_LOCALRANKID=0", "HYDI_CONTROL_FD=7", "MY_PMI_FD=1",
	}
	if got := fmt.Sprint(cleanEnv(env)); got != "[PATH=/bin OMPI_MCA_btl=tcp MY_PMI_FD=1]" {
		t.Error(got)
	}
}

// However what ranks write is cut into pieces, each of their lines comes out whole and once.
func TestOutput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var to bytes.Buffer
		o := newOutput(&to, rankLabel(1), false)
		const ranks = 3
		var said [ranks]bytes.Buffer
		for range rapid.IntRange(0, 30).Draw(t, "pieces") {
			rank := rapid.IntRange(0, ranks-1).Draw(t, "rank")
			piece := rapid.StringMatching(`[ab\n]{0,6}`).Draw(t, "piece")
			said[rank].WriteString(piece)
			o.write(rank, []byte(piece))
		}
		got := make([][]string, ranks)
		for rank := range ranks {
			o.end(rank)
		}
		for line := range strings.Lines(to.String()) {
			var rank int
			if _, err := fmt.Sscanf(line, "[%d]", &rank); err != nil || !strings.HasSuffix(line, "\n") {
				t.Fatalf("line %q", line)
			}
			got[rank] = append(got[rank], strings.TrimSuffix(line[len("[0] "):], "\n"))
		}
		for rank := range ranks {
			text := said[rank].String()
			if !strings.HasSuffix(text, "\n") && text != "" {
				text += "\n"
			}
			want := strings.Split(text, "\n")
			if want = want[:len(want)-1]; !slices.Equal(got[rank], want) {
				t.Fatalf("rank %d: %q, want %q", rank, got[rank], want)
			}
		}
	})
	// A line without end is not kept for ever.
	var to bytes.Buffer
	o := newOutput(&to, nil, false)
	for range 10 {
		o.write(0, bytes.Repeat([]byte("x"), lineBytesMax/2))
	}
	if kept := len(o.parts[0]); kept > lineBytesMax || to.Len() < 2*lineBytesMax {
		t.Errorf("%d bytes kept, %d written", kept, to.Len())
	}
}

// A line is whole up to lineBytesMax however it is written; a longer one comes in pieces of that
// length, and no empty line follows it.
func TestOutputLongLines(t *testing.T) {
	t.Parallel()
	for _, length := range []int{8193, lineBytesMax - 1, lineBytesMax} {
		for _, first := range []int{1, length / 2, length} {
			var to bytes.Buffer
			o := newOutput(&to, nil, false)
			line := append(bytes.Repeat([]byte("x"), length), '\n')
			o.write(0, line[:first])
			o.write(0, line[first:])
			o.end(0)
			if !bytes.Equal(to.Bytes(), line) {
				t.Errorf("a line of %d bytes, %d first: %d lines, %d bytes", length, first,
					bytes.Count(to.Bytes(), []byte("\n")), to.Len())
			}
		}
	}
	var to bytes.Buffer
	o := newOutput(&to, nil, false)
	o.write(0, bytes.Repeat([]byte("x"), 2*lineBytesMax))
	o.write(0, []byte("yz\n\n"))
	o.end(0)
	piece := strings.Repeat("x", lineBytesMax) + "\n"
	if want := piece + piece + "yz\n\n"; to.String() != want {
		t.Errorf("%d bytes, want %d", to.Len(), len(want))
	}
}

// stuck is a reader of output that reads nothing until it is closed.
type stuck chan struct{}

func (s stuck) Write(b []byte) (int, error) {
	<-s
	return len(b), nil
}

// An outlet keeps nobody waiting, and no more of a rank than its agent may send: credit comes when
// something has been written, and not before.
func TestOutlet(t *testing.T) {
	t.Parallel()
	to := make(stuck)
	o := newOutlet(newOutput(to, nil, true), agent.KindStderr)
	h := &host{credit: newCredits()}
	piece := bytes.Repeat([]byte("x"), pendingMax/4)
	for i := range 5 {
		if took := o.add(1, piece, h); took != (i < 4) {
			t.Errorf("piece %d: taken: %v", i, took)
		}
	}
	if !o.add(2, piece, h) {
		t.Error("another rank's output is not taken")
	}
	select {
	case <-h.credit.due:
		t.Error("credit for what is not written")
	default:
	}
	close(to)
	o.end(1)
	o.say("bye\n")
	o.close()
	<-o.done
	<-h.credit.due
	got := map[string]bool{}
	h.credit.take(func(f agent.Frame) { got[fmt.Sprintf("%+v", f)] = true })
	for rank, n := range map[int]int{1: 4 * len(piece), 2: len(piece)} {
		if want := fmt.Sprintf("%+v", agent.CreditFrame(rank, agent.KindStderr, n)); !got[want] {
			t.Errorf("no credit %s: %v", want, got)
		}
	}
	if len(o.pending) != 0 || len(got) != 2 {
		t.Errorf("%v is pending, %d credits", o.pending, len(got))
	}
}

// gated is a reader of output that begins to read when its gate is closed.
type gated struct {
	gate stuck
	read bytes.Buffer
}

func (g *gated) Write(b []byte) (int, error) {
	<-g.gate
	return g.read.Write(b)
}

// However small the pieces of output are, an outlet keeps few entries for each rank, and the output
// of each rank comes in order. The end of a rank ends its line.
func TestOutletSmallPieces(t *testing.T) {
	t.Parallel()
	to := &gated{gate: make(stuck)}
	o := newOutlet(newOutput(to, rankLabel(1), false), agent.KindStdout)
	h := &host{credit: newCredits()}
	const ranks, pieces = 3, 3000
	var want [ranks]strings.Builder
	add := func(rank int, text string) {
		if !o.add(rank, []byte(text), h) {
			t.Fatalf("rank %d: output within the credit is not taken", rank)
		}
		want[rank].WriteString(text)
	}
	for i := range pieces {
		for rank := range ranks {
			add(rank, []string{"a", "b", "c\n", "d"}[i%4])
		}
	}
	o.end(1)
	want[1].WriteString("\n")
	for range pieces {
		add(1, "e")
	}
	o.say("bye\n")
	o.lock.Lock()
	if n := len(o.queue); n > ranks+3 { // also the end of rank 1, its late output, and the message
		t.Errorf("%d entries for %d ranks", n, ranks)
	}
	o.lock.Unlock()
	close(to.gate)
	for rank := range ranks {
		o.end(rank)
		want[rank].WriteString("\n")
	}
	o.close()
	<-o.done
	for rank := range ranks {
		var got strings.Builder
		for line := range strings.Lines(to.read.String()) {
			if text, ok := strings.CutPrefix(line, rankLabel(1)(rank)); ok {
				got.WriteString(text)
			}
		}
		if got.String() != want[rank].String() {
			t.Errorf("rank %d: %d bytes, not in order", rank, got.Len())
		}
	}
}
