package readme

import (
	"bufio"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gobtl/internal/testenv"
)

// image is what the steps of a container file have made so far, in a folder in the place of each of
// the two stages.
type image struct {
	context, src, out, root string
	env                     []string
	user, command           string
}

// TestContainer carries out each step of the container file by hand. The build stage uses this
// machine's Go with an empty module cache, and has no network if this process may leave it out. The
// last stage is a folder, which is then the root of its programs. No image is made.
func TestContainer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("containers are for Linux")
	}
	testenv.Need(t, "git", "git")
	dir := t.TempDir()
	im := &image{
		context: filepath.Join(dir, "context"), src: filepath.Join(dir, "src"),
		out: filepath.Join(dir, "out"), root: filepath.Join(dir, "root"),
	}
	sh(t, root, "tools/container/context.sh "+im.context)
	stage := 0
	for _, step := range steps(t, filepath.Join(im.context, "Dockerfile")) {
		word, rest, _ := strings.Cut(step, " ")
		if word == "FROM" {
			stage++
		}
		switch stage {
		case 1:
			im.build(t, word, rest)
		case 2:
			im.last(t, word, rest)
		}
	}
	im.try(t)
}

// steps returns the instructions of a container file.
func steps(t *testing.T, name string) (found []string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			found = append(found, line)
		}
	}
	return found
}

// build carries out a step of the stage that has Go.
func (im *image) build(t *testing.T, word, rest string) {
	t.Helper()
	switch word {
	case "FROM":
		if rest != "${GO} AS build" {
			t.Errorf("the first stage is from %q", rest)
		}
	case "WORKDIR": // It is im.src.
	case "COPY":
		if rest != ". ." {
			t.Fatalf("COPY %s", rest)
		}
		sh(t, im.context, "cp -r . "+im.src)
	case "ENV":
		im.env = append(im.env, strings.Fields(rest)...)
	case "RUN":
		script := strings.ReplaceAll(rest, "/out", im.out)
		cmd := exec.Command("sh", "-euc", script)
		if os.Geteuid() == 0 {
			cmd = exec.Command("unshare", "--net", "sh", "-euc", script)
		}
		cmd.Dir = im.src
		cmd.Env = append(cmd.Environ(), im.env...)
		cmd.Env = append(cmd.Env, "GOMODCACHE="+filepath.Join(im.src, "none"), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("RUN %s\n%v\n%s", rest, err, out)
		}
	default:
		t.Fatalf("the test does not know the step %s %s", word, rest)
	}
}

// last carries out a step of the stage that becomes the image.
func (im *image) last(t *testing.T, word, rest string) {
	t.Helper()
	switch word {
	case "FROM":
		if rest != "scratch" {
			t.Errorf("the last stage is from %q", rest)
		}
		im.env = nil
	case "COPY":
		if rest != "--from=build /out/ /" {
			t.Fatalf("COPY %s", rest)
		}
		sh(t, im.out, "cp -r . "+im.root)
	case "ENV":
		im.env = append(im.env, strings.Fields(rest)...)
	case "USER":
		im.user = rest
	case "CMD":
		im.command = strings.NewReplacer(`"`, "", "[", "", "]", "", ",", "").Replace(rest)
	default:
		t.Fatalf("the test does not know the step %s %s", word, rest)
	}
}

// try runs the programs of the image, with the image as their root where this process may do that.
func (im *image) try(t *testing.T) {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(im.root, "usr/bin/*"))
	if err != nil || len(programs) < 5 {
		t.Fatalf("programs %v, %v", programs, err)
	}
	for _, p := range programs {
		f, err := elf.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range f.Progs {
			if part.Type == elf.PT_INTERP {
				t.Errorf("%s is not static", p)
			}
		}
		f.Close()
	}
	version := strings.TrimSpace(readFile(t, filepath.Join(im.src, "VERSION")))
	if out := im.run(t, "btlrun --version"); !strings.Contains(out, version) {
		t.Errorf("btlrun --version: %q, want %s", out, version)
	}
	if out := im.run(t, im.command); !strings.Contains(out, "Usage: btlbench") {
		t.Errorf("%s:\n%s", im.command, out)
	}
	if out := im.run(t, "btlbench info"); !strings.Contains(out, "udp") {
		t.Errorf("btlbench info:\n%s", out)
	}
	readFile(t, filepath.Join(im.root, "usr/share/doc/gobtl/LICENSE"))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// run runs a command of the image and returns what it prints.
func (im *image) run(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(command)
	cmd := exec.Command(filepath.Join(im.root, "usr/bin", words[0]), words[1:]...)
	if os.Geteuid() == 0 {
		args := append([]string{"--userspec=" + im.user, im.root}, words...)
		cmd = exec.Command("chroot", args...)
	}
	cmd.Env = im.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestWithoutRepository makes the Debian package and the folder of the container in a copy of the
// tree that has no repository, as README's "put this tree next to your module" makes one.
func TestWithoutRepository(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("packages and containers are for Linux")
	}
	testenv.Need(t, "git", "git")
	testenv.Need(t, "dpkg-deb", "dpkg")
	tree := t.TempDir()
	sh(t, root, "git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |"+
		" tar --null --files-from=- --create | tar --extract --directory "+tree)
	sh(t, tree, "tools/container/context.sh bin/container")
	sh(t, tree, "tools/debian/package.sh bin/package")
	for _, name := range []string{
		"container/VERSION", "container/cmd/btlbench/main.go", "container/go.mod",
		"package/root/usr/share/doc/gobtl/docs/README.md",
	} {
		if _, err := os.Stat(filepath.Join(tree, "bin", name)); err != nil {
			t.Error(err)
		}
	}
}
