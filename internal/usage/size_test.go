package usage

import "testing"

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "8": 8, "8B": 8, "1K": 1024, "1kb": 1024, "64K": 65536, "1M": 1 << 20, "4MiB": 4 << 20,
		"1G": 1 << 30,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
		var again Size
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%s is written %s, which is read as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "K", "-1", "1X", "1.5K", "4G", "99999999999", "1 K", "0x10"} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}
