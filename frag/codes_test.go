package frag

import "testing"

// The words for the code of a Bye follow "closed by the peer: ", and say who did what.
func TestByeWord(t *testing.T) {
	for code, want := range map[uint16]string{
		ByeDead:      "it got no acknowledgement from here in time",
		ByeNarrow:    "the path is too narrow",
		ByeOwner + 7: "its owner says 7",
	} {
		if got := ByeWord(code); got != want {
			t.Errorf("code %d: %q, want %q", code, got, want)
		}
	}
	for code, words := range byeWords {
		if words == "" {
			t.Errorf("code %d has no words", code)
		}
	}
}
