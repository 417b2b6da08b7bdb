package usage

import (
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

type list []string

func (l *list) UnmarshalText(text []byte) error {
	*l = list{string(text)}
	return nil
}

// TestText checks that kong's error for a missing value becomes clearer, and that all other errors
// are unchanged.
func TestText(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--size", "-1"}, "--size must not be negative: -1"},
		{[]string{"--count", "-.5"}, "--count must not be negative: -.5"},
		{[]string{"-n", "-7"}, "--count must not be negative: -7"},
		{[]string{"--time", "-1s"}, "--time must not be negative: -1s"},
		{[]string{"--size"}, "--size needs a value"},
		{
			[]string{"--size", "--count", "3"},
			"--size needs a value, and --count is a flag; as a value it is written --size=--count",
		},
		{
			[]string{"--name", `-"x`},
			`--name needs a value, and -"x is a flag; as a value it is written --name=-"x`,
		},
		{[]string{"--bogus"}, "unknown flag --bogus"},
		{[]string{"--json"}, "unknown flag --json: write --format json"},
		{[]string{"-J"}, "unknown flag -J: write --format json"},
		{[]string{"--count", "x"}, `--count: "x" is not a whole number`},
		{[]string{"--share", "x"}, `--share: "x" is not a number`},
	} {
		var c struct {
			Size  list
			Count int `short:"n"`
			Time  time.Duration
			Name  string
			Share float64
		}
		p, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Parse(tc.args)
		if err == nil {
			t.Errorf("%q: no error", tc.args)
		} else if got := Text(err); got != tc.want {
			t.Errorf("%q: %s\nwant %s\nof %v", tc.args, got, tc.want, err)
		}
	}
}

// TestBeyond checks when a page describes a command by the flags of another command.
func TestBeyond(t *testing.T) {
	like := []row{{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}, {"e", ""}, {"f", ""}}
	other := append([]row{{"HOST", ""}}, like[:5]...)
	for _, tc := range []struct {
		list []row
		rest int
		ok   bool
	}{
		{like, 0, true},
		{append(other, row{"f", "otherwise"}), 2, true}, // HOST, and another text of f
		{other, 6, false}, // without f
		{like[:1], 1, false},
	} {
		rest, ok := beyond(tc.list, like)
		if ok != tc.ok || ok && len(rest) != tc.rest {
			t.Errorf("%v: %v, %v; want %d rows, %v", tc.list, rest, ok, tc.rest, tc.ok)
		}
	}
}

// TestMisuse checks that the text names the help of the command that was misused.
func TestMisuse(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"pair", "--bogus"}, "unknown flag --bogus (see prog pair --help)"},
		{[]string{"--bogus"}, "unknown flag --bogus (see prog --help)"},
		{nil, `expected one of "pair", "run" (see prog --help)`},
	} {
		var c struct {
			Pair struct{} `cmd:""`
			Run  struct{} `cmd:""`
		}
		p, err := kong.New(&c, kong.Name("prog"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.Parse(tc.args); err == nil {
			t.Errorf("%q: no error", tc.args)
		} else if got := Misuse("prog", err); got != tc.want {
			t.Errorf("%q: %s\nwant %s", tc.args, got, tc.want)
		}
	}
}
