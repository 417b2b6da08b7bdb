package kept

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestKeeperFair checks that a peer that repeatedly leaves data loses only its own data, the oldest
// first.
func TestKeeperFair(t *testing.T) {
	k := New[int](100)
	k.Add("good", -1, 30)
	for i := range 50 {
		dropped := k.Add("bad", i, 20)
		var want []int
		if i >= 3 {
			want = []int{i - 3}
		}
		if !slices.Equal(dropped, want) {
			t.Fatalf("%d: dropped %v, want %v", i, dropped, want)
		}
	}
	if !k.Has(-1) || k.Of("bad") != 3 || k.Bytes() != 90 {
		t.Errorf("good: %v, bad: %d, bytes: %d", k.Has(-1), k.Of("bad"), k.Bytes())
	}
	if dropped := k.Add("huge", 1000, 101); !slices.Contains(dropped, 1000) || !k.Has(-1) {
		t.Errorf("a thing larger than the bound: dropped %v", dropped)
	}
}

// TestKeeperModel compares a Keeper with a list.
func TestKeeperModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type kept struct {
			peer  string
			bytes int64
		}
		k, model := New[int](64), map[int]kept{}
		for range 50 {
			what := rapid.IntRange(0, 9).Draw(t, "what")
			bytes := rapid.Int64Range(0, 40).Draw(t, "bytes")
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0:
				k.Remove(what)
				delete(model, what)
			case 1:
				k.Shrink(what, bytes)
				if m, ok := model[what]; ok {
					m.bytes = max(0, m.bytes-bytes)
					model[what] = m
				}
			default:
				peer := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "peer")
				model[what] = kept{peer, bytes}
				for _, gone := range k.Add(peer, what, bytes) {
					delete(model, gone)
				}
			}
			sum, of := int64(0), map[string]int{}
			for what, m := range model {
				sum += m.bytes
				of[m.peer]++
				if !k.Has(what) {
					t.Fatalf("%d is gone", what)
				}
			}
			if sum != k.Bytes() || sum > 64 {
				t.Fatalf("%d bytes, want %d, at most 64", k.Bytes(), sum)
			}
			for _, peer := range []string{"a", "b", "c"} {
				if k.Of(peer) != of[peer] {
					t.Fatalf("%s has %d, want %d", peer, k.Of(peer), of[peer])
				}
			}
		}
	})
}
