package words

import "testing"

func TestName(t *testing.T) {
	t.Parallel()
	names := []string{"zero", "", "two"}
	for value, want := range map[int]string{
		0: "zero", 1: "Kind(1)", 2: "two", 3: "Kind(3)", -1: "Kind(-1)",
	} {
		if got := Name(names, value, "Kind"); got != want {
			t.Errorf("%d is named %q, want %q", value, got, want)
		}
	}
}
