//go:build unix

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Frames are read as they were written; cut anywhere, they are an error.
func TestFrames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all bytes.Buffer
		w := NewWriter(&all)
		var want []Frame
		for range rapid.IntRange(1, 4).Draw(t, "frames") {
			f := Frame{
				Kind: Kind(rapid.IntRange(int(KindStart), int(KindKill)).Draw(t, "kind")),
				Rank: rapid.IntRange(0, 1<<20).Draw(t, "rank"),
				Body: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "body"),
			}
			want = append(want, f)
			if err := w.Write(f); err != nil {
				t.Fatal(err)
			}
		}
		whole := all.Bytes()
		in := bytes.NewReader(whole)
		for _, f := range want {
			got, err := Read(in)
			if err != nil || !reflect.DeepEqual(got, f) {
				t.Fatalf("%v, %v; want %v", got, err, f)
			}
		}
		if _, err := Read(in); !errors.Is(err, io.EOF) {
			t.Fatal("behind the last one:", err)
		}
		last := want[len(want)-1]
		cut := rapid.IntRange(1, frameHead+len(last.Body)-1).Draw(t, "cut")
		in = bytes.NewReader(whole[len(whole)-frameHead-len(last.Body) : len(whole)-cut])
		if f, err := Read(in); err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("one that ends %d bytes early: %v, %v", cut, f, err)
		}
	})
	for _, bad := range []string{
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x0c\x00\x00\x00\x00\x00\x00\x00\x00",
		"\x02\x00\x00\x00\x00\x00\x01\x00\x01", "\x01\x00\x00\x00\x00\x01\x00\x00\x01",
	} {
		if f, err := Read(strings.NewReader(bad)); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: %v, %v", bad, f, err)
		}
	}
}

// Standard input for a rank that has ended is reported as taken, so that btlrun reads the rest of
// its standard input, and the program that writes it does not wait for ever.
func TestInputAfterEnd(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(Start{
		Ranks: []int{0}, Size: 2, Args: AsBytes([]string{"/bin/true"}), Dir: []byte("/"),
	})
	if err != nil {
		t.Fatal(err)
	}
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(in, out) }()
	greeting := make([]byte, len(Greeting))
	if _, err := io.ReadFull(fromAgent, greeting); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(toAgent)
	await := func(kind Kind) {
		t.Helper()
		for {
			f, err := Read(fromAgent)
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind == kind {
				return
			}
		}
	}
	if err := w.Write(Frame{Kind: KindStart, Body: body}); err != nil {
		t.Fatal(err)
	}
	await(KindExit)
	for range 3 {
		if err := w.Write(Frame{Kind: KindStdin, Body: []byte("more")}); err != nil {
			t.Fatal(err)
		}
		await(KindTaken)
	}
	_ = toAgent.Close()
	go func() { _, _ = io.Copy(io.Discard, fromAgent) }()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What no btlrun says ends an agent, with nothing started.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	begin := func(ranks []int, program ...string) Frame {
		body, err := json.Marshal(Start{Ranks: ranks, Size: 2, Args: AsBytes(program), Dir: []byte("/")})
		if err != nil {
			t.Fatal(err)
		}
		return Frame{Kind: KindStart, Body: body}
	}
	start, cat := begin([]int{0}, "/nonexistent"), begin([]int{0}, "/bin/cat")
	piece := Frame{Kind: KindStdin, Body: make([]byte, BodyBytesMax)}
	for name, frames := range map[string][]Frame{
		"no json":             {{Kind: KindStart, Body: []byte("{")}},
		"nothing to start":    {{Kind: KindStart, Body: []byte("{}")}},
		"a second start":      {start, start},
		"a rank twice":        {begin([]int{0, 0}, "/bin/cat")},
		"a rank of elsewhere": {{Kind: KindPMI, Rank: 3}},
		"a long signal":       {{Kind: KindSignal, Body: []byte("ab")}},
		"an agent's own":      {{Kind: KindExit}},
		"credit for nobody":   {CreditFrame(3, KindStdout, 1)},
		"credit for nothing":  {cat, CreditFrame(0, KindStdout, 1)},
		"credit of no kind":   {cat, CreditFrame(0, KindPMI, 1)},
		"input all at once":   {begin([]int{0}, "/bin/sleep", "60"), piece, piece, piece},
		"a short credit":      {{Kind: KindCredit, Body: []byte{byte(KindStdout)}}},
	} {
		var in, out bytes.Buffer
		w := NewWriter(&in)
		for _, f := range frames {
			if err := w.Write(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := Serve(&in, &out); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(out.String(), Greeting) {
			t.Errorf("%s: it says %q", name, out.String())
		}
	}
	var out bytes.Buffer
	if err := Serve(strings.NewReader(""), &out); err != nil {
		t.Error("nothing to do:", err)
	}
}
