package usage

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestHelp checks that each line of the help has the width of the terminal at most, and that the
// first line is a whole command line.
func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "50")
	var c struct {
		Own
		Run struct {
			Manager string `required:"" placeholder:"NAME" help:"The manager's name."`
			Address string `required:"" placeholder:"HOST:PORT" help:"The manager's address."`
			Where   string `arg:"" help:"The place."`
		} `cmd:"" help:"Run something somewhere, for a while, with a sentence that is long."`
		Stop struct{} `cmd:"" help:"Stop."`
	}
	for _, tc := range []struct{ args, usage string }{
		{"--help", "Usage: program <command> [flags]"},
		{"run --help", "Usage: program run --manager NAME --address HOST:PORT [flags] WHERE"},
	} {
		var out strings.Builder
		p, err := kong.New(&c, Help(), kong.Name("program"), kong.Writers(&out, &out),
			kong.Exit(func(int) { panic("exit") }))
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = p.Parse(strings.Fields(tc.args))
		}()
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.HasPrefix(got, tc.usage) {
			t.Errorf("%s: %s\nwant %s", tc.args, got, tc.usage)
		}
		if hint := "for more information"; strings.Contains(out.String(), "Commands:") !=
			strings.Contains(strings.Join(strings.Fields(out.String()), " "), hint) {
			t.Errorf("%s: the commands and the hint belong together:\n%s", tc.args, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimSuffix(line, "\n")) > 50 {
				t.Errorf("%s: %q has more than 50 columns", tc.args, line)
			}
		}
	}
}
