package usage

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

// TestBytes checks that values are passed on byte for byte, wherever the values stand.
func TestBytes(t *testing.T) {
	const odd = "\xff,\xc3("
	var c struct {
		Name  string
		Files []string `sep:"none"`
		Args  []string `arg:"" passthrough:"partial"`
	}
	p, err := kong.New(&c, Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"--name=" + odd, "--files", odd, odd, "-x", odd}); err != nil {
		t.Fatal(err)
	}
	if want := []string{odd, "-x", odd}; c.Name != odd || !slices.Equal(c.Files, []string{odd}) ||
		!slices.Equal(c.Args, want) {
		t.Errorf("%q", c)
	}
	if _, err := p.Parse([]string{"--name"}); err == nil || Text(err) != "--name needs a value" {
		t.Errorf("without a value: %v", err)
	}
}
