package plan

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestWindowList(t *testing.T) {
	for _, c := range []struct {
		text string
		want windowList
		json string
	}{
		{"1", windowList{1}, "1"},
		{"1, 8,65536", windowList{1, 8, 65536}, "[1,8,65536]"},
	} {
		var l windowList
		if err := l.UnmarshalText([]byte(c.text)); err != nil || !slices.Equal(l, c.want) {
			t.Errorf("%q: %v, %v", c.text, l, err)
		}
		if b, err := json.Marshal(l); err != nil || string(b) != c.json {
			t.Errorf("%q: %s, %v", c.text, b, err)
		}
	}
	if b, err := json.Marshal(windowList(nil)); err != nil || string(b) != "64" {
		t.Errorf("none: %s, %v", b, err)
	}
	for _, text := range []string{"", "0", "-1", "65537", "8,", "x"} {
		if (&windowList{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestWindowsOfTests(t *testing.T) {
	for _, c := range []struct {
		test      string
		sizeBytes int
		asked     windowList
		want      []int
	}{
		{TestRate, 8, nil, []int{1, 8, 64, 512}},
		{TestRate, 8, windowList{4, 2, 4}, []int{4, 2}},
		{TestRate, 1 << 20, windowList{8, 64, 512}, []int{8, 64}}, // 512 MiB are too many.
		{TestBW, 8, nil, []int{64}},
		{TestBW, 8, windowList{1, 2}, []int{1, 2}},
		{TestLat, 8, windowList{3, 4}, []int{3}},
		{TestPutLat, 8, nil, []int{64}},
		{TestLatLoad, 8, nil, []int{2}},
		{TestLatLoad, 8, windowList{1, 64, 128}, []int{1, 64}}, // Of the load's size, 1 MiB.
	} {
		f := Flags{Window: c.asked, LoadSize: 1 << 20}
		if got := f.Windows(c.test, c.sizeBytes); !slices.Equal(got, c.want) {
			t.Errorf("%s of %d, %v: %v, want %v", c.test, c.sizeBytes, c.asked, got, c.want)
		}
	}
}

func TestLoadList(t *testing.T) {
	var l loadList
	if err := l.UnmarshalText([]byte("1%, 100%,max,1%")); err != nil ||
		!slices.Equal(l, loadList{1, 100, LoadMax}) {
		t.Errorf("%v, %v", l, err)
	}
	if b, err := json.Marshal(l); err != nil || string(b) != `["1%","100%","max"]` {
		t.Errorf("%s, %v", b, err)
	}
	for _, text := range []string{"", "0%", "101%", "50", "max%", "idle", "-5%", "x%", "1%,"} {
		if (&loadList{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
