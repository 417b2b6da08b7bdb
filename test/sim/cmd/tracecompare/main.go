package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"
)

type cli struct {
	Base   string   `required:"" help:"The commit to compare the working tree with."`
	Seeds  uint64   `default:"256" help:"How many seeds to run."`
	First  uint64   `default:"1" help:"The first seed."`
	Flags  []string `help:"Further flags of swarm, for both." sep:"none" placeholder:"FLAG"`
	Before int      `default:"3" help:"Lines to show before the first that differs."`
}

// errDiffer means that traces differ, which was already reported.
var errDiffer = errors.New("traces differ")

func main() {
	var c cli
	kong.Parse(&c, kong.Name("tracecompare"), kong.UsageOnError(),
		kong.Description("Compare the swarm's traces of a commit and of the working tree."))
	if err := c.run(os.Stdout); err != nil {
		if !errors.Is(err, errDiffer) {
			fmt.Fprintln(os.Stderr, "tracecompare:", err)
		}
		os.Exit(1)
	}
}

func (c *cli) run(out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "tracecompare")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	base, here := filepath.Join(dir, "swarm-base"), filepath.Join(dir, "swarm-here")
	if err := buildBase(c.Base, filepath.Join(dir, "tree"), base); err != nil {
		return err
	}
	if err := command("", "go", "build", "-o", here, "./test/sim/cmd/swarm"); err != nil {
		return err
	}
	diffs := make([]string, c.Seeds)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range diffs {
		g.Go(func() (err error) {
			diffs[i], err = c.compare(dir, base, here, c.First+uint64(i))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return summary(out, diffs)
}

// summary tells how many seeds differ, and which seeds have their first different lines shown.
func summary(out io.Writer, diffs []string) error {
	const shown = 10
	differ := 0
	for _, d := range diffs {
		if d == "" {
			continue
		}
		if differ++; differ <= shown {
			fmt.Fprint(out, d)
		}
	}
	same := len(diffs) - differ
	fmt.Fprintf(out, "%d seeds: %d with the same trace, %d differ\n", len(diffs), same, differ)
	if differ > 0 {
		return errDiffer
	}
	return nil
}

// buildBase builds the command swarm of a commit, in a separate work tree.
func buildBase(commit, tree, binary string) (err error) {
	if err := command("", "git", "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command("", "git", "worktree", "remove", "--force", tree))
	}()
	return command(tree, "go", "build", "-o", binary, "./test/sim/cmd/swarm")
}

// command runs a program in a directory, where "" means the present one, and returns an error with
// the program's output.
func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// compare replays one seed with both programs, and returns the first difference, or "".
func (c *cli) compare(dir, base, here string, seed uint64) (string, error) {
	var traces [2][]byte
	for i, binary := range []string{base, here} {
		file := filepath.Join(dir, fmt.Sprintf("%d-%d", i, seed))
		args := append([]string{"--replay", fmt.Sprint(seed), "--trace", file}, c.Flags...)
		var diag bytes.Buffer
		cmd := exec.Command(binary, args...)
		cmd.Stderr = &diag
		// The trace of a failed seed, which ends at the failure, is compared, too.
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			return "", err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("seed %d, %v: %w\n%s", seed, cmd.Args, err, diag.Bytes())
		}
		if len(text) == 0 {
			return "", fmt.Errorf("seed %d, %v: no trace\n%s", seed, cmd.Args, diag.Bytes())
		}
		// The last line of a trace has the hash of all events on the network, with all bytes of
		// their packets.
		traces[i] = append(text, diag.Bytes()...)
		if err := os.Remove(file); err != nil {
			return "", err
		}
	}
	if bytes.Equal(traces[0], traces[1]) {
		return "", nil
	}
	return firstDifference(seed, traces[0], traces[1], c.Before), nil
}

// firstDifference shows the first line in which two traces differ, and some lines before it.
func firstDifference(seed uint64, base, here []byte, before int) string {
	b, h := bufio.NewScanner(bytes.NewReader(base)), bufio.NewScanner(bytes.NewReader(here))
	var context []string
	for n := 1; ; n++ {
		bMore, hMore := b.Scan(), h.Scan()
		if bMore && hMore && b.Text() == h.Text() {
			if context = append(context, b.Text()); len(context) > before {
				context = context[1:]
			}
			continue
		}
		s := fmt.Sprintf("seed %d differs from line %d on:\n", seed, n)
		for _, line := range context {
			s += "    " + line + "\n"
		}
		return s + "  - " + b.Text() + "\n  + " + h.Text() + "\n"
	}
}
