package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/internal/usage"
)

func TestSizeList(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	g := int64(1 << 30)
	for _, c := range []struct {
		text string
		want []int
	}{
		{"8", []int{8}},
		{"0", []int{0}},
		{"0,8,1K", []int{0, 8, k}},
		{" 1k , 4MiB,2GB ", []int{k, 4 * m, int(2 * g)}},
		{"1,..,8", []int{1, 2, 4, 8}},
		{"1K,..,1K", []int{k, k}},
		{"3,..,20", []int{3, 6, 12, 20}},
		{"0,8,1K,..,4M", []int{
			0, 8, k, 2 * k, 4 * k, 8 * k, 16 * k, 32 * k, 64 * k, 128 * k, 256 * k,
			512 * k, m, 2 * m, 4 * m,
		}},
		{"4294967295", []int{int(4*g - 1)}},
	} {
		var got SizeList
		if err := got.UnmarshalText([]byte(c.text)); err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
}

func TestSizeListErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "is no size"},
		{"8Q", "is no size"},
		{"-1", "is no size"},
		{"1.5K", "is no size"},
		{"K", "is no size"},
		{"8,,16", "is no size"},
		{"8,", "is no size"},
		{"4G", "beyond the limit"},
		{"4294967295K", "beyond the limit"},
		{"99999999999999999999", "is no size"},
		{"..,8", "needs a size before"},
		{"8,..", "needs a size before"},
		{"0,..,8", "cannot double"},
		{"16,..,8", "cannot double"},
		{"8,..,x", "is no size"},
		{"1" + strings.Repeat(",1", 300), "more than 256 sizes"},
	} {
		var got SizeList
		err := got.UnmarshalText([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: error %v, want %q", c.text, err, c.want)
		}
	}
}

// TestSizeTextRoundTrip writes any size and reads it back.
func TestSizeTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, SizeBytesMax).Draw(t, "size")
		got, err := usage.ParseSize(SizeText(n))
		if err != nil || got != n {
			t.Fatalf("%d became %q became %d (%v)", n, SizeText(n), got, err)
		}
	})
}

func FuzzSizeList(f *testing.F) {
	for _, text := range []string{"8", "0,8,1K,..,4M", "..", "1,..,4294967295", "8MMM"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l SizeList
		if l.UnmarshalText([]byte(text)) != nil {
			return
		}
		if len(l) == 0 || len(l) > sizesMax {
			t.Fatalf("%d sizes", len(l))
		}
		for _, n := range l {
			if n < 0 || n > SizeBytesMax {
				t.Fatalf("size %d", n)
			}
		}
	})
}

func TestTestList(t *testing.T) {
	var l TestList
	err := l.UnmarshalText([]byte("bw, lat,bw"))
	if err != nil || !slices.Equal(l, []string{"bw", "lat"}) {
		t.Errorf("%v, %v", l, err)
	}
	if err := l.UnmarshalText([]byte("all")); err != nil || !slices.Equal(l, AllTests) {
		t.Errorf("%v, %v", l, err)
	}
	err = l.UnmarshalText([]byte("lat,bww"))
	if err == nil || !strings.Contains(err.Error(), `did you mean "bw"?`) {
		t.Errorf("%v", err)
	}
}

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		text string
		want Amount
		json string
	}{
		{"0", Amount{}, "0"},
		{"1000", Amount{Messages: 1000}, "1000"},
		{"50ms", Amount{Time: 50 * time.Millisecond}, `"50ms"`},
	} {
		var a Amount
		if err := a.UnmarshalText([]byte(c.text)); err != nil || a != c.want {
			t.Errorf("%q: %v, %v", c.text, a, err)
		}
		if b, err := json.Marshal(a); err != nil || string(b) != c.json {
			t.Errorf("%q: %s, %v", c.text, b, err)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "x", "1.5"} {
		if (&Amount{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// TestAmountSplit cuts amounts into parts that add up.
func TestAmountSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, RoundsMax).Draw(t, "parts")
		a := Amount{
			Messages: rapid.Int64Range(0, iterationsMax).Draw(t, "messages"),
			Time:     time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "time")),
		}
		var sum Amount
		for i := range n {
			p := a.Split(i, n)
			if p.Messages > a.Messages/int64(n)+1 || p.Messages < a.Messages/int64(n) {
				t.Fatalf("part %d of %d of %d messages is %d", i, n, a.Messages, p.Messages)
			}
			sum.Messages += p.Messages
			sum.Time += p.Time
		}
		if sum.Messages != a.Messages || sum.Time < a.Time || sum.Time >= a.Time+time.Duration(n) {
			t.Fatalf("parts of %v add up to %v", a, sum)
		}
	})
}

func TestCPUList(t *testing.T) {
	for _, c := range []struct {
		text string
		want CPUList
		back string
	}{
		{"0,1", CPUList{0, 1}, "0,1"},
		{"2-4,7", CPUList{2, 3, 4, 7}, "2,3,4,7"},
		{"none", CPUList{}, "none"},
	} {
		var l CPUList
		if err := l.UnmarshalText([]byte(c.text)); err != nil || !slices.Equal(l, c.want) || l == nil {
			t.Errorf("%q: %v, %v", c.text, l, err)
		}
		if l.String() != c.back {
			t.Errorf("%q became %q", c.text, l)
		}
	}
	for _, text := range []string{"", "x", "-1", "3-2", "0,", "1024", "0-99999999"} {
		if (&CPUList{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestSuggestion(t *testing.T) {
	names := []string{"ack_delay", "ack_every", "ofi/udp"}
	for word, want := range map[string]string{
		"ack_dely": `, did you mean "ack_delay"?`,
		"ofi/udb":  `, did you mean "ofi/udp"?`,
		"UDP":      "",
		"zzzzzzzz": "",
		"":         "",
	} {
		if got := Suggestion(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// TestTests states what is known of each test.
func TestTests(t *testing.T) {
	t.Parallel()
	if len(AllTests) != 14 {
		t.Errorf("%d tests, this states 14", len(AllTests))
	}
	for _, c := range []struct {
		test                      string
		latency, pingPong, remote bool
	}{
		{"lat", true, true, false},
		{"bw", false, false, false},
		{"bw_reverse", false, false, false},
		{"bibw", false, false, false},
		{"rate", false, false, false},
		{"lat_load", true, true, false},
		{"put_lat", true, false, true},
		{"put_bw", false, false, true},
		{"notice", true, true, true},
		{"get_lat", true, false, true},
		{"get_bw", false, false, true},
		{"atomic_lat", true, false, true},
		{"atomic", false, false, true},
		{"atomic_post", false, false, true},
		{"none", false, false, false},
	} {
		if IsLatency(c.test) != c.latency || IsPingPong(c.test) != c.pingPong ||
			IsRemote(c.test) != c.remote {
			t.Errorf("%s: latency %v, ping-pong %v, remote %v", c.test, IsLatency(c.test),
				IsPingPong(c.test), IsRemote(c.test))
		}
		if known := c.test != "none"; (Title(c.test) != "") != known {
			t.Errorf("%s has the title %q", c.test, Title(c.test))
		}
	}
}
