package readme

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/internal/testenv"
)

const guide = "docs/guide/README.md"

// fence is a fenced block of a page.
type fence struct{ info, text string }

var fenced = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func fences(page string) (found []fence) {
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		found = append(found, fence{m[1], m[2]})
	}
	return found
}

// TestGuideQuotes: each block of Go in the guide is a part of the program that it names.
func TestGuideQuotes(t *testing.T) {
	t.Parallel()
	quotes := 0
	for _, f := range fences(read(t, guide)) {
		name, ok := strings.CutPrefix(f.info, "go ")
		if !ok {
			if f.info != "sh" && f.info != "text" {
				t.Errorf("a block with the heading %q is neither run nor compared", f.info)
			}
			continue
		}
		quotes++
		if !strings.Contains(read(t, name), f.text) {
			t.Errorf("%s does not have\n%s", name, f.text)
		}
	}
	if quotes < 6 {
		t.Errorf("%d quotes in the guide", quotes)
	}
}

// storeLinesMax is the maximum number of lines of a file of the program at the end of the guide.
const storeLinesMax = 120

// TestStoreIsShort: the guide names the numbers of lines of the store's two files, and the store is
// short.
func TestStoreIsShort(t *testing.T) {
	t.Parallel()
	page := strings.Join(strings.Fields(read(t, guide)), " ")
	for name, words := range map[string]string{
		"main.go": "(../../examples/guide/store/main.go), which has %d lines",
		"copy.go": "(../../examples/guide/store/copy.go), %d lines",
	} {
		text := read(t, "examples/guide/store/"+name)
		n := strings.Count(text, "\n")
		if words = fmt.Sprintf(words, n); n > storeLinesMax || !strings.Contains(page, words) {
			t.Errorf("%s of the store has %d lines, want %d at most, and %q in the guide", name, n,
				storeLinesMax, words)
		}
	}
}

// died finds what bash says of a job that was killed.
var died = regexp.MustCompile(`(?m)^.*: line \d+: +\d+ (Killed|Terminated) .*\n`)

// elsewhere replaces each address of loopback in a text by one that is free. The words after
// "await" that are the port of such an address are replaced too.
func elsewhere(t *testing.T, text string) string {
	t.Helper()
	for _, address := range regexp.MustCompile(`127\.0\.0\.1:\d+`).FindAllString(text, -1) {
		if !strings.Contains(text, address) {
			continue // already replaced
		}
		free := freeAddress(t)
		_, port, _ := strings.Cut(address, ":")
		_, freePort, _ := strings.Cut(free, ":")
		text = strings.ReplaceAll(text, address, free)
		text = strings.ReplaceAll(text, "await "+port+" ", "await "+freePort+" ")
	}
	return text
}

// TestGuide runs all commands of the guide in one shell, as a reader does, and compares what they
// print. Ports that may be taken here are replaced by free ones, and bin by another folder. The
// first command, which builds the programs, may take any time. The transport has a minute for what
// the guide's reader sees at once, because other programs may keep the processors busy.
func TestGuide(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the guide's programs use the provider udp, which is for Linux")
	}
	testenv.Need(t, "curl", "curl")
	page := read(t, guide)
	page = elsewhere(t, page)
	page = regexp.MustCompile(`\bbin/`).ReplaceAllString(page, t.TempDir()+"/")
	build, _, _ := strings.Cut(fences(page)[0].text, "\n")
	if !strings.Contains(build, "go build") {
		t.Fatalf("the guide does not begin with a build: %s", build)
	}
	sh(t, root, build)
	const mark = "=== block"
	script, wants := "exec 2>&1\n", []fence{}
	for _, f := range fences(page) {
		switch {
		case f.info == "sh":
			wants = append(wants, fence{info: f.text})
			script += f.text + fmt.Sprintf("echo '%s'\n", mark)
		case f.info == "text" && len(wants) > 0:
			wants[len(wants)-1].text = f.text
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Need(t, "bash", "bash"), "-uc",
		"trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\n"+script)
	cmd.Dir, cmd.WaitDelay = root, time.Second
	cmd.Env = append(cmd.Environ(), patient...)
	out, err := cmd.CombinedOutput()
	got := strings.Split(died.ReplaceAllString(string(out), ""), mark+"\n")
	if err != nil || len(got) != len(wants)+1 {
		t.Fatalf("%d of %d blocks were run, %v\n%s", len(got)-1, len(wants), err, out)
	}
	for i, want := range wants {
		if !sameOutput(want.text, got[i], strings.Contains(want.info, " & ")) {
			t.Errorf("%s\nprints\n%s\nand the guide has\n%s", want.info, got[i], want.text)
		}
	}
}

// sameOutput compares lines, in any order if they come from several processes. A line of the guide
// may have "..." in the place of what differs from run to run.
func sameOutput(want, got string, anyOrder bool) bool {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	if anyOrder {
		slices.Sort(wants)
		slices.Sort(gots)
	}
	return slices.EqualFunc(wants, gots, func(want, got string) bool {
		pattern := strings.NewReplacer("...", "*", "[", `\[`, "*", `\*`).Replace(want)
		same, err := path.Match(strings.ReplaceAll(pattern, "/", "|"), strings.ReplaceAll(got, "/", "|"))
		return err == nil && same
	})
}

func TestSameOutput(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want, got string
		any, same bool
	}{
		{"a\nb\n", "a\nb\n", false, true},
		{"a\nb\n", "b\na\n", false, false},
		{"a\nb\n", "b\na\n", true, true},
		{"a ...\n", "a 1/2\n", false, true},
		{"a ...\n", "b 1\n", false, false},
		{"", "a\n", false, false},
		{"a\n", "", true, false},
	} {
		if sameOutput(tc.want, tc.got, tc.any) != tc.same {
			t.Errorf("%q, %q: want %v", tc.want, tc.got, tc.same)
		}
	}
}
