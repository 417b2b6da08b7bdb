package tidy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// violation is a small source with the expected findings, each in the form "line rule".
type violation struct {
	name string
	path string
	code string
	want []string
}

// run checks the sources. Each source is alone, except for a doc.go, so that only its own rule
// applies.
func run(t *testing.T, cases []violation) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Helper()
			files := []File{{Path: c.path, Data: []byte(c.code)}}
			if dir, base := filepath.Split(c.path); strings.HasSuffix(base, ".go") {
				doc := "// Package x is documented.\npackage x\n"
				files = append(files, File{Path: dir + "doc.go", Data: []byte(doc)})
			}
			var got []string
			for _, f := range Check(files) {
				if f.Path == c.path {
					got = append(got, fmt.Sprintf("%d %s", f.Line, f.Rule))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func one(imported string) string { return "package x\nimport _ \"" + imported + "\"\n" }

func TestImports(t *testing.T) {
	t.Parallel()
	bad := []string{"2 import"}
	run(t, []violation{
		{"btl imports a provider", "btl/x.go", one("gobtl/fabric/ofi"), bad},
		{"btl imports its exporter", "btl/x.go", one("gobtl/btl/btlprom"), bad},
		{"btl imports the core", "btl/x.go", one("gobtl/reliability"), nil},
		{"btl's test imports a provider", "btl/x_test.go", one("gobtl/fabric/mem"), nil},
		{"provider imports btl", "fabric/udp/x.go", one("gobtl/btl"), bad},
		{"provider imports frag", "fabric/udp/x.go", one("gobtl/frag"), bad},
		{"provider imports reliability", "fabric/ofi/x.go", one("gobtl/reliability"), bad},
		{"provider imports a provider", "fabric/impair/x.go", one("gobtl/fabric/mem"), bad},
		{"provider imports fabric", "fabric/udp/x.go", one("gobtl/fabric"), nil},
		{"provider uses x/sys", "fabric/udp/x.go", one("golang.org/x/sys/unix"), nil},
		{"fabric imports a provider", "fabric/x.go", one("gobtl/fabric/mem"), bad},
		{"hotel imports fabric", "hotel/x.go", one("gobtl/fabric"), bad},
		{"hotel imports reliability", "hotel/x.go", one("gobtl/reliability"), bad},
		{"hotel imports mono", "hotel/x.go", one("gobtl/internal/mono"), nil},
		{"hotel uses sync", "hotel/x.go", one("sync"), bad},
		{"hotel uses atomics", "hotel/x.go", one("sync/atomic"), bad},
		{"hotel's test uses sync", "hotel/x_test.go", one("sync"), nil},
		{"reliability imports frag", "reliability/x.go", one("gobtl/frag"), bad},
		{"reliability uses os", "reliability/x.go", one("os"), bad},
		{"reliability uses net", "reliability/x.go", one("net/netip"), bad},
		{"reliability imports hotel", "reliability/x.go", one("gobtl/hotel"), nil},
		{"frag sees time", "frag/x.go", one("time"), bad},
		{"frag sees instants", "frag/x.go", one("gobtl/internal/mono"), bad},
		{"frag uses net", "frag/x.go", one("net"), bad},
		{"frag imports seq", "frag/x.go", one("gobtl/internal/seq"), nil},
		{"a leaf imports hotel", "internal/slots/x.go", one("gobtl/hotel"), bad},
		{"a leaf imports a leaf", "internal/slots/x.go", one("gobtl/internal/seq"), nil},
		{"prometheus in btl", "btl/x.go", one("github.com/prometheus/client_golang/prometheus"), bad},
		{
			"prometheus in btlprom", "btl/btlprom/x.go",
			one("github.com/prometheus/client_golang/prometheus"), nil,
		},
		{"kong in btl", "btl/x.go", one("github.com/alecthomas/kong"), bad},
		{"kong in a program", "cmd/btlbench/x.go", one("github.com/alecthomas/kong"), nil},
		{"tables in the library", "frag/x.go", one("github.com/jedib0t/go-pretty/v6/table"), bad},
		{"btree in the cache", "btl/internal/regcache/x.go", one("github.com/google/btree"), nil},
		{"btree in btl", "btl/x.go", one("github.com/google/btree"), bad},
		{"btree elsewhere", "fabric/mem/x.go", one("github.com/google/btree"), bad},
		{"a program names providers", "cmd/btlbench/x.go", one("gobtl/fabric/ofi"), nil},
		{"an example uses what is internal", "examples/echo/x.go", one("gobtl/internal/mono"), bad},
		{"a module unknown here", "cmd/btlbench/x.go", one("github.com/spf13/cobra"), bad},
		{"rapid outside of tests", "hotel/x.go", one("pgregory.net/rapid"), bad},
		{"rapid in a test", "hotel/x_test.go", one("pgregory.net/rapid"), nil},
		{"a program imports test", "cmd/btlbench/x.go", one("gobtl/test/cli"), bad},
		{"a test imports test", "btl/x_test.go", one("gobtl/test/cli"), bad},
		{"test imports test", "test/sim/x.go", one("gobtl/test/cli"), nil},
		{"a program imports the suite", "cmd/btlbench/x.go", one("gobtl/fabric/fabrictest"), bad},
		{"a test imports the suite", "fabric/udp/x_test.go", one("gobtl/fabric/fabrictest"), nil},
		{"a program imports tidy", "cmd/btlbench/x.go", one("gobtl/internal/tidy"), bad},
		{"cgo in btl", "btl/x.go", one("C"), []string{"2 cgo"}},
		{"cgo in another provider", "fabric/udp/x.go", one("C"), []string{"2 cgo"}},
		{"cgo in a test", "test/sim/x.go", one("C"), []string{"2 cgo"}},
		{"cgo in ofi", "fabric/ofi/x.go", one("C"), nil},
		{"dot import", "fabric/x.go", "package x\nimport . \"fmt\"\n", bad},
		{"a package without a row", "nowhere/x.go", "package x\n", []string{"1 layout"}},
	})
}

func TestCalls(t *testing.T) {
	t.Parallel()
	const now = "package x\nimport \"time\"\nvar _ = time.Now\n"
	const alias = "package x\nimport t \"time\"\nfunc f() { t.Sleep(1) }\n"
	const goes = "package x\nfunc f() { go f() }\n"
	const exits = "package x\nimport \"os\"\nfunc f() { os.Exit(1) }\n"
	const prints = "package x\nimport \"fmt\"\nfunc f() { fmt.Println() }\n"
	const global = "package x\nimport \"math/rand/v2\"\nvar _ = rand.IntN(3)\n"
	const yields = "package x\nimport \"golang.org/x/sys/unix\"\nvar _ = unix.SYS_SCHED_YIELD\n"
	const gosched = "package x\nimport \"runtime\"\nvar _ = runtime.Gosched\n"
	clock := []string{"3 clock"}
	run(t, []violation{
		{"clock in btl", "btl/module.go", now, clock},
		{"clock under another name", "btl/module.go", alias, clock},
		{"clock in hotel", "hotel/x.go", now, clock},
		{"clock in fabric", "fabric/clock.go", now, clock},
		{"clock in a provider", "fabric/sim/x.go", now, clock},
		{
			"clock of the system", "fabric/udp/x.go",
			"package x\nimport \"golang.org/x/sys/unix\"\nvar _ = unix.ClockGettime\n", clock,
		},
		{"clock in the Runner", "btl/runner/wake.go", now, nil},
		{"clock in a provider's file for it", "fabric/impair/clock.go", now, nil},
		{"sleep in a provider's file for it", "fabric/mem/wait_linux.go", alias, nil},
		{"clock in a program", "cmd/btlbench/x.go", now, nil},
		{"clock in a test", "btl/x_test.go", now, nil},
		{
			"a duration is no clock", "hotel/x.go",
			"package x\nimport \"time\"\nconst d = time.Second\n", nil,
		},
		{
			"a field called Now", "btl/x.go",
			"package x\nfunc f(time struct{ Now int }) int { return time.Now }\n", nil,
		},
		{"a yield in a program", "cmd/btlvnic/agent/clock.go", yields, []string{"3 yield"}},
		{"a yield in a provider", "fabric/udp/x.go", yields, []string{"3 yield"}},
		{"a yield by its policy", "internal/waiting/thread_linux.go", yields, nil},
		{"a yield in a test", "test/netns/recovery/role.go", yields, nil},
		{"Go's yield in stream", "stream/run.go", gosched, []string{"3 yield"}},
		{"Go's yield in the Runner", "btl/runner/drive.go", gosched, nil},
		{"the system's yield in the Runner", "btl/runner/drive.go", yields, []string{"3 yield"}},
		{"goroutine in btl", "btl/module.go", goes, []string{"2 goroutine"}},
		{"goroutine in the simulator", "fabric/sim/x.go", goes, []string{"2 goroutine"}},
		{"goroutine in the Runner", "btl/runner/watch.go", goes, nil},
		{"clock in the conformance suite", "fabric/fabrictest/x.go", now, nil},
		{"goroutine in a test", "reliability/x_test.go", goes, nil},
		{"exit in btl", "btl/x.go", exits, []string{"3 exit"}},
		{"exit deep in a program", "cmd/btlbench/x.go", exits, []string{"3 exit"}},
		{"exit in main.go", "cmd/btlbench/main.go", exits, nil},
		{"print in btl", "btl/x.go", prints, []string{"3 output"}},
		{"print in an example", "examples/echo/main.go", prints, nil},
		{"print in an Example", "btl/x_test.go", prints, nil},
		{
			"stderr in a provider", "fabric/udp/x.go",
			"package x\nimport \"os\"\nvar w = os.Stderr\n",
			[]string{"3 output"},
		},
		{"log in a provider", "fabric/udp/x.go", one2("log"), []string{"1 output"}},
		{
			"println in a program", "cmd/btlbench/x.go",
			"package x\nfunc f() { println(1) }\n",
			[]string{"2 output"},
		},
		{
			"global randomness, first version", "btl/x.go",
			"package x\nimport \"math/rand\"\nvar _ = rand.Intn(3)\n",
			[]string{"3 random"},
		},
		{
			"panic in a program", "cmd/btlbench/x.go",
			"package main\nfunc f(x any) { panic(x) }\n", nil,
		},
		{"global randomness", "btl/x.go", global, []string{"3 random"}},
		{
			"seeded randomness", "fabric/sim/x.go",
			"package x\nimport \"math/rand/v2\"\nvar _ = rand.New(rand.NewPCG(1, 2))\n", nil,
		},
		{
			"panic with an error", "btl/x.go",
			"package btl\nfunc f(err error) { panic(err) }\n",
			[]string{"2 panic"},
		},
		{
			"panic with another's name", "btl/x.go",
			"package btl\nfunc f() { panic(\"hotel: lost\") }\n",
			[]string{"2 panic"},
		},
		{
			"panic with a bare name", "btl/x.go",
			"package btl\nfunc f() { panic(\"btl\") }\n",
			[]string{"2 panic"},
		},
		{
			"panic as it should be", "btl/x.go",
			"package btl\nfunc f(s string) { panic(\"btl: lost \" + s) }\n", nil,
		},
		{
			"panic, formatted", "btl/x.go",
			"package btl\nimport \"fmt\"\nfunc f() { panic(fmt.Sprintf(\"btl: lost %d\", 1)) }\n", nil,
		},
		{"init in btl", "btl/x.go", "package x\nfunc init() {}\n", []string{"2 init"}},
		{"init in a provider", "fabric/udp/x.go", "package x\nfunc init() {}\n", nil},
		{"a method called init", "btl/x.go", "package x\ntype T int\nfunc (T) init() {}\n", nil},
		{
			"linkname", "btl/x.go", "package x\n//go:linkname f runtime.nanotime\nfunc f() int64\n",
			[]string{"2 linkname"},
		},
		{"no Go at all", "btl/x.go", "package x\nfunc {\n", []string{"0 syntax"}},
	})
}

// one2 imports a package without using a name of the package.
func one2(imported string) string { return "package x\nimport \"" + imported + "\"\n" }

func TestHeaderCalls(t *testing.T) {
	t.Parallel()
	write := "package x\nfunc f(h header, b []byte) int { return h.Encode(b) }\n"
	read := "package x\nfunc f(b []byte, h *header) { _, _ = frag.Decode(b, h) }\n"
	bad := []string{"2 header"}
	run(t, []violation{
		{"a second writer", "btl/send.go", write, bad},
		{"the writer", "btl/write_headers.go", write, nil},
		{"a writer beside it", "btl/write_path.go", write, nil},
		{
			"a second writer of fragments", "btl/link_counted.go",
			"package x\nfunc f(b []byte) int { return frag.PutFrag(b) }\n", bad,
		},
		{
			"a second writer of Pings", "btl/aside.go",
			"package x\nfunc f(b []byte) int { return frag.EncodePing(b) }\n", bad,
		},
		{
			"a second writer of Parts", "btl/aside.go",
			"package x\nfunc f(b []byte) int { return frag.PutPart(b) }\n", bad,
		},
		{"the writer reads", "btl/write_headers.go", read, bad},
		{"a second reader", "btl/recv.go", read, bad},
		{"the reader", "btl/read_headers.go", read, nil},
		{"a test of btl", "btl/x_test.go", write, nil},
		{"another package", "test/sim/x.go", write, nil},
		{"not a call", "btl/x.go", "package x\nvar f = header.Encode\n", nil},
	})
}

func TestStructSizes(t *testing.T) {
	t.Parallel()
	fields := func(name string, n int) string {
		return "package x\ntype " + name + " struct {\n" + strings.Repeat("a, b int\n", n/2) +
			strings.Repeat("c int\n", n%2) + "}\n"
	}
	run(t, []violation{
		{"at the limit", "btl/x.go", fields("T", structFieldsMax), nil},
		{"too many", "btl/x.go", fields("T", structFieldsMax+1), []string{"2 struct"}},
		{"settings", "btl/x.go", fields("Config", structFieldsMax+1), nil},
		{"a test", "btl/x_test.go", fields("T", structFieldsMax+1), nil},
		{"another package", "frag/x.go", fields("T", structFieldsMax+1), nil},
	})
}

// TestFloors makes two layers, and checks that calls to the higher layer are found.
func TestFloors(t *testing.T) {
	t.Parallel()
	top, low, below := btlFloors[1][0], btlFloors[2][0], btlFloors[3][0]
	file := func(name, code string) File {
		return File{Path: "btl/" + name, Data: []byte("package btl\n" + code)}
	}
	check := func(files ...File) (got []string) {
		for _, f := range Check(files) {
			if f.Rule == "floor" && f.Path != "internal/tidy/rules.go" {
				got = append(got, f.String())
			}
		}
		return got
	}
	down := file(top, "func (m *Module) pass() { m.work() }\n")
	same := file(low, "func (m *Module) work() { m.keep() }\n")
	if got := check(down, same, file(below, "func (m *Module) keep() {}\n")); got != nil {
		t.Errorf("calls that point down: %q", got)
	}
	for what, f := range map[string]File{
		"a method":   file(below, "func (m *Module) keep() { m.pass() }\n"),
		"two floors": file(below, "func (m *Module) keep() {}\nfunc f(m *Module) { m.pass() }\n"),
	} {
		if got := check(down, same, f); len(got) != 1 || !strings.Contains(got[0], "calls pass of "+top) {
			t.Errorf("%s that points up: %q", what, got)
		}
	}
	if got := check(down, file("new.go", "")); len(got) != 1 || !strings.Contains(got[0], "no place") {
		t.Errorf("a file without a place: %q", got)
	}
	// An exception that is no longer needed is a finding.
	var stale int
	for _, f := range Check([]File{down, same, file(below, "func (m *Module) keep() {}\n")}) {
		if strings.Contains(f.Text, "allowed and not there") {
			stale++
		}
	}
	if stale != len(arrowsUp) {
		t.Errorf("%d exceptions are told to be stale, of %d", stale, len(arrowsUp))
	}
}

// TestWalls checks that a type with too many methods is found, and a type that has grown above its
// individual bound.
func TestWalls(t *testing.T) {
	t.Parallel()
	file := func(name, pkg, typ string, methods int) File {
		var b strings.Builder
		b.WriteString("package " + pkg + "\n")
		for i := range methods {
			fmt.Fprintf(&b, "func (x *%s) m%d() {}\n", typ, i)
		}
		return File{Path: name, Data: []byte(b.String())}
	}
	walls := func(files ...File) (got []string) {
		for _, f := range Check(files) {
			if f.Rule == "wall" {
				got = append(got, f.Text)
			}
		}
		return got
	}
	for _, c := range []struct {
		what  string
		files []File
		want  string // "" means no finding
	}{
		{"at the limit", []File{file("hotel/a.go", "hotel", "Hotel", methodsMax)}, ""},
		{"above", []File{
			file("hotel/a.go", "hotel", "Hotel", 20), file("hotel/b.go", "hotel", "Hotel", methodsMax-19),
		}, "hotel.Hotel has 61 methods, at most 60"},
		{"a test", []File{file("hotel/a_test.go", "hotel", "Hotel", methodsMax+1)}, ""},
		{"a long package", []File{
			{Path: "btl/call/a.go", Data: []byte("package call\n" + strings.Repeat("\n", packageLinesMax))},
		}, "btl/call has 7001 lines"},
		{"today's root", []File{
			{Path: "btl/a.go", Data: []byte("package btl\n" + strings.Repeat("\n", linesToday["btl"]-1))},
		}, ""},
		{"a long root", []File{
			{Path: "btl/a.go", Data: []byte("package btl\n" + strings.Repeat("\n", linesToday["btl"]))},
		}, "and fewer with time"},
	} {
		got := walls(c.files...)
		if c.want == "" && got != nil || c.want != "" &&
			(len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	lines := func(n int) string { return strings.Repeat("\n", n) }
	wide := func(n int) string { return "// " + strings.Repeat("w", n-3) + "\n" }
	function := func(n int) string { return "package x\nfunc f() {" + lines(n-1) + "}\n" }
	table := "package x\n\n//nolint:lll // It is a table.\nvar t = []string{\n\t\"" +
		strings.Repeat("w", 120) + "\",\n}\n"
	run(t, []violation{
		{"file", "btl/x.go", "package x\n" + lines(500), []string{"501 file"}},
		{"file at the limit", "btl/x.go", "package x\n" + lines(499), nil},
		{"test file", "btl/x_test.go", "package x\n" + lines(800), []string{"801 file"}},
		{"test file at the limit", "btl/x_test.go", "package x\n" + lines(799), nil},
		{"C file", "fabric/ofi/x.c", lines(501), []string{"501 file"}},
		{"C file of a test", "fabric/ofi/testdata/x.c", lines(800), nil},
		{"function", "btl/x.go", function(71), []string{"2 function"}},
		{"function at the limit", "btl/x.go", function(70), nil},
		{"function in a test", "btl/x_test.go", function(71), nil},
		{"line", "btl/x.go", "package x\n" + wide(101), []string{"2 line"}},
		{"line at the limit", "btl/x.go", "package x\n" + wide(100), nil},
		{
			"line of two-byte letters", "btl/x.go",
			"package x\n// " + strings.Repeat("\u00fc", 97) + "\n", nil,
		},
		{"line in C", "fabric/ofi/x.c", wide(101), []string{"1 line"}},
		{"marked table", "btl/x_test.go", table, nil},
		{"after the marked table", "btl/x_test.go", table + wide(101), []string{"7 line"}},
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	own := "/" + "home/somebody/x"
	run(t, []violation{
		{"unfinished", "README.md", "a\nTO" + "DO: b\n", []string{"2 word"}},
		{"unfinished, third form", "Makefile", "# X" + "XX\n", []string{"1 word"}},
		{"part of a word", "Makefile", "mktemp x.XX" + "XXXX\n", nil},
		{"own path", "README.md", "cd " + own + "\n", []string{"1 path"}},
		{"own path, quoted", "x.sh", "X=\"" + own + "\"\n", []string{"1 path"}},
		{"own path, working copy", "x.sh", "cd /wo" + "rk/main\n", []string{"1 path"}},
		{"part of a path", "README.md", "see docs" + own + "\n", nil},
		{"checksums", "go.sum", own + "\n", nil},
		{"fuzzed bytes", "frag/testdata/fuzz/F/1", "TO" + "DO\n", nil},
		{"binary", "x.png", "\x00 " + own + "\n", nil},
		{"unfinished in Go", "btl/x.go", "package x // FIX" + "ME\n", []string{"1 word"}},
		{"emoji", "README.md", "fast \U0001F680\n", []string{"1 picture"}},
		{"mathematics", "README.md", "a \u2264 b \u2192 c\n", nil},
	})
}

func TestPackageDocs(t *testing.T) {
	t.Parallel()
	const plain, documented = "package hotel\n", "// Package hotel is.\npackage hotel\n"
	const a, b, doc = "hotel/a.go", "hotel/b.go", "hotel/doc.go"
	cases := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"none", map[string]string{a: plain, b: plain}, []string{doc}},
		{"none, one file", map[string]string{a: plain}, []string{doc}},
		{"one file", map[string]string{a: documented}, nil},
		{"doc.go", map[string]string{a: plain, doc: documented}, nil},
		{"elsewhere", map[string]string{a: documented, b: plain}, []string{doc}},
		{"twice", map[string]string{a: documented, doc: documented}, []string{a}},
		{"a test's", map[string]string{a: plain, "hotel/a_test.go": documented}, []string{doc}},
		{"tests alone", map[string]string{"test/cli/a_test.go": "package cli\n"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var files []File
			for name, code := range c.files {
				files = append(files, File{Path: name, Data: []byte(code)})
			}
			var got []string
			for _, f := range Check(files) {
				if f.Rule != "doc" {
					t.Errorf("unexpected: %v", f)
				}
				got = append(got, f.Path)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found in %q, want %q", got, c.want)
			}
		})
	}
}

// TestFiles checks which files of a repository are read.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Files(dir); err == nil {
		t.Error("a directory without repository is no error")
	}
	for name, data := range map[string]string{
		".gitignore":     "/bin/\n",
		"bin/x":          "ignored",
		"new.go":         "package x\n",
		"a b/\u00fc.txt": "odd name",
	} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	files, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	if want := []string{".gitignore", "a b/\u00fc.txt", "new.go"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}
