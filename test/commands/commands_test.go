package commands

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gobtl/internal/testenv"
)

var rewrite = flag.Bool("rewrite", false, "write the pages of the reference")

// programs are those of cmd/.
var programs = []string{"btlbench", "btlrun", "btlstream", "btlvnic", "mpibench"}

// reference is the folder of their pages.
const reference = "../../docs/reference"

// bin is the folder of the built programs.
var bin string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "commands")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	build := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "gobtl/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// output runs a program, which must end well and say nothing on standard error.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(filepath.Join(bin, program), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.String() != "" {
		t.Fatalf("%s %v: %v\n%s", program, args, err, stderr.String())
	}
	return string(out)
}

// TestPrograms fails for a program of cmd/ that is not in the list.
func TestPrograms(t *testing.T) {
	t.Parallel()
	list, err := os.ReadDir(bin)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range list {
		found = append(found, f.Name())
	}
	if got, want := strings.Join(found, " "), strings.Join(programs, " "); got != want {
		t.Errorf("cmd/ has %s, want %s", got, want)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, p := range programs {
		form := regexp.MustCompile(`^` + p + ` \S+\n$`)
		if got := output(t, p, "--version"); !form.MatchString(got) {
			t.Errorf("%s --version: %q, want its name and its version", p, got)
		}
	}
}

// TestReference compares the pages of the reference with the flags of the programs.
func TestReference(t *testing.T) {
	t.Parallel()
	for _, p := range programs {
		want := output(t, p, "--reference")
		name := filepath.Join(reference, p+".md")
		if *rewrite {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != want {
			t.Errorf("%s is not what %s has (%v): go test ./test/commands -run TestReference -rewrite",
				name, p, err)
		}
	}
}

// TestFormats: --format takes text and json in every program, and text is the default.
func TestFormats(t *testing.T) {
	t.Parallel()
	flags := regexp.MustCompile("(?m)^\\| `([^`]*--(?:format|json)(?: [^`]*)?)` \\| (.*) \\|$")
	for _, p := range programs {
		found := flags.FindAllStringSubmatch(output(t, p, "--reference"), -1)
		if len(found) == 0 {
			t.Errorf("%s has no --format", p)
		}
		for _, f := range found {
			if f[1] != "--format NAME" || !strings.Contains(f[2], "text") ||
				!strings.Contains(f[2], "json") || !strings.Contains(f[2], "Default: text.") {
				t.Errorf("%s: %s: %s; want --format NAME with text and json, text the default",
					p, f[1], f[2])
			}
		}
	}
}

// TestManual has groff read the manual pages: it warns of what it does not understand.
func TestManual(t *testing.T) {
	t.Parallel()
	groff := testenv.Need(t, "groff", "groff-base")
	for _, p := range programs {
		cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-P-cbou")
		cmd.Stdin = strings.NewReader(output(t, p, "--man"))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || stderr.String() != "" {
			t.Errorf("%s --man: %v\n%s", p, err, stderr.String())
		}
		for _, want := range []string{p + " - ", "SYNOPSIS", "--completion SHELL"} {
			if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), want) {
				t.Errorf("%s --man lacks %q:\n%s", p, want, out)
			}
		}
	}
}

// TestCompletion has bash complete command lines.
func TestCompletion(t *testing.T) {
	t.Parallel()
	bash := testenv.Need(t, "bash", "bash")
	for _, tc := range []struct{ line, want string }{
		{"btlbench pa", "pair params"},
		{"btlbench pair --layer ", "btl raw both runner"},
		{"btlbench info --form", "--format"},
		{"btlbench --comp", "--completion"},
		{"btlbench pair --size 8 --dom", "--domain"},
		{"btlrun --keep", "--keep-going"},
		{"btlrun --no-l", "--no-label"},
		{"btlrun --wdir ", ""}, // A file, which the shell completes.
		{"btlstream --mode ", "reliable unreliable"},
		{"btlstream --completion ", "bash zsh fish"},
		{"btlvnic show ho", "hosts"},
		{"btlvnic ping-mac --cou", "--count"},
		{"mpibench --wait e", "event"},
		{"mpibench comp", "compare"},
	} {
		words := strings.Split(tc.line, " ")
		script := output(t, words[0], "--completion", "bash") + fmt.Sprintf(
			"COMP_WORDS=('%s'); COMP_CWORD=%d; _%s; echo \"${COMPREPLY[@]}\"\n",
			strings.Join(words, "' '"), len(words)-1, words[0])
		out, err := exec.Command(bash, "-euc", script).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != tc.want {
			t.Errorf("%q: %q, %v, want %q", tc.line, got, err, tc.want)
		}
	}
	for shell, want := range map[string]string{"zsh": "#compdef ", "fish": "complete -c "} {
		for _, p := range programs {
			if got := output(t, p, "--completion", shell); !strings.HasPrefix(got, want+p) {
				t.Errorf("%s --completion %s: %s", p, shell, got)
			}
		}
	}
	out, err := exec.Command(filepath.Join(bin, "btlrun"), "--completion", "tcsh").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "want bash, zsh or fish") {
		t.Errorf("an unknown shell: %v, %s", err, out)
	}
}

// TestOutcome: btlrun tells in JSON how its job went.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"0": `{"schema":"gobtl-run/1","ranks":1,"status":0}`,
		"7": `{"schema":"gobtl-run/1","ranks":1,"status":7}`,
	} {
		out, _ := exec.Command(filepath.Join(bin, "btlrun"), "--format", "json", "sh", "-c",
			"exit "+status).CombinedOutput() // The status is in what it tells.
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if got := lines[len(lines)-1]; got != want {
			t.Errorf("exit %s: %s, want %s", status, got, want)
		}
	}
}
