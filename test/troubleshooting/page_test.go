//go:build linux

package troubleshooting

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gobtl/btl"
)

const (
	root = "../.."
	page = "docs/how-to/troubleshooting.md"
)

// row is a row of the page: the words of a message, all of which it has.
type row struct {
	words []string
	name  string // the first words
}

var quoted = regexp.MustCompile("`([^`]+)`")

// rows returns the rows of the page whose first cell has words of a message. What stands there in
// brackets is the error to test for.
func rows(text string) (found []row) {
	for line := range strings.Lines(text) {
		cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !ok || !strings.HasPrefix(cell, "`") {
			continue
		}
		cell = regexp.MustCompile(" \\(`[^)]*`\\)").ReplaceAllString(cell, "")
		for _, alternative := range strings.Split(strings.ReplaceAll(cell, "`, `", "`\n`"), "\n") {
			r := row{}
			for _, m := range quoted.FindAllStringSubmatch(alternative, -1) {
				r.words = append(r.words, m[1])
			}
			r.name = r.words[0]
			found = append(found, r)
		}
	}
	return found
}

func TestRows(t *testing.T) {
	t.Parallel()
	const text = "| words | cause |\n|---|---|\n| `a` ... `b` (`E`) | x |\n" +
		"| `c, e`, `d` | `y` |\n| e `f` | z |\n"
	var got []string
	for _, r := range rows(text) {
		got = append(got, strings.Join(r.words, "+"))
	}
	if want := []string{"a+b", "c, e", "d"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// provoked is what provokes a message: it returns the message.
type provoked func(t *testing.T) string

// elsewhere is a test that provokes an error in a lab of its own.
type elsewhere struct {
	file, test string
	names      string // how the test names the error, or a part of its text
	err        error  // whose text has the words, if the test names the error alone
}

var labs = map[string]elsewhere{
	"but not by": {
		"test/netns/firewall_test.go", "TestModuleOnePort", "both ports must pass", nil,
	},
	"mpi: a rank does not reach another one": {
		"test/launch/networks_linux_test.go", "TestNetworks", "a rank does not reach another one", nil,
	},
	"mpi: no address for the other hosts": {
		"test/launch/networks_linux_test.go", "TestNetworks", "no address for the other hosts", nil,
	},
	"this process is at its limit of open files": {
		"mpi/limit_linux_test.go", "TestLimitOfFiles", "limit of open files (ulimit -n)", nil,
	},
	"for all of it: sysctl -w net.core.rmem_max=": {
		"fabric/udp/capacity_test.go", "TestRecvAttr", "for all of it: sysctl", nil,
	},
	"btl: the path to the peer does not carry datagrams of the least size": {
		"test/netns/module_test.go", "TestModulePathShrinks", "btl.ErrNarrow", btl.ErrNarrow,
	},
	"the path takes no datagrams of N bytes": {
		"test/stream/netns_test.go", "TestSmallPath", "the path takes no datagrams of", nil,
	},
	"btl: the peer holds memory that others want, and does not go on": {
		"btl/shed_test.go", "TestStalledGivesMemoryBack", "ErrStalled", btl.ErrStalled,
	},
	"btl: the peer has broken the protocol": {
		"test/stranger/hostile_test.go", "TestWithheld", "btl.ErrBroken", btl.ErrBroken,
	},
}

// TestMessages provokes each message of the page.
func TestMessages(t *testing.T) {
	t.Parallel()
	unused := maps.Clone(cases)
	inLabs := maps.Clone(labs)
	for _, r := range rows(read(t, page)) {
		provoke, ok := cases[r.name]
		lab, inLab := labs[r.name]
		delete(unused, r.name)
		delete(inLabs, r.name)
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			switch {
			case ok:
				message := provoke(t)
				for _, w := range r.words {
					if !strings.Contains(message, w) {
						t.Errorf("the message %q lacks %q", message, w)
					}
				}
			case inLab:
				lab.check(t, r)
			default:
				t.Error("nothing provokes this message")
			}
		})
	}
	for name := range unused {
		t.Errorf("the page does not have %q", name)
	}
	for name := range inLabs {
		t.Errorf("the page does not have %q", name)
	}
}

// check says whether the test of a lab is there, and names the error.
func (l elsewhere) check(t *testing.T, r row) {
	t.Helper()
	_, body, ok := strings.Cut(read(t, l.file), "\nfunc "+l.test+"(")
	body, _, _ = strings.Cut(body, "\nfunc Test")
	if !ok || !strings.Contains(body, l.names) {
		t.Errorf("%s has no %s that names %q", l.file, l.test, l.names)
	}
	for _, w := range r.words {
		if l.err != nil && !strings.Contains(l.err.Error(), w) {
			t.Errorf("%v lacks %q", l.err, w)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
