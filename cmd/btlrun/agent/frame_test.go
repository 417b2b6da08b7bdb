//go:build unix

package agent

import (
	"bytes"
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

// What no btlrun says ends an agent, with nothing started.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	start := []byte(`{"Ranks":[0],"Size":1,"Args":["nonexistent"],"Env":[],"Dir":"/","Stdin":-1}`)
	cat := bytes.Replace(start, []byte("nonexistent"), []byte("/bin/cat"), 1)
	twice := bytes.Replace(start, []byte("[0]"), []byte("[0,0]"), 1)
	for name, frames := range map[string][]Frame{
		"no json":             {{Kind: KindStart, Body: []byte("{")}},
		"nothing to start":    {{Kind: KindStart, Body: []byte("{}")}},
		"a second start":      {{Kind: KindStart, Body: start}, {Kind: KindStart, Body: start}},
		"a rank twice":        {{Kind: KindStart, Body: twice}},
		"a rank of elsewhere": {{Kind: KindPMI, Rank: 3}},
		"a long signal":       {{Kind: KindSignal, Body: []byte("ab")}},
		"an agent's own":      {{Kind: KindExit}},
		"credit for nobody":   {CreditFrame(3, KindStdout, 1)},
		"credit for nothing":  {{Kind: KindStart, Body: cat}, CreditFrame(0, KindStdout, 1)},
		"credit of no kind":   {{Kind: KindStart, Body: cat}, CreditFrame(0, KindPMI, 1)},
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
