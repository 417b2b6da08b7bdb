package usage

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// Help is an option for kong that changes how the help of a command is printed. In contrast to
// kong's own help, this option wraps long usage lines, and the line that refers to the help of
// commands.
func Help() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		if err := kong.ConfigureHelp(kong.HelpOptions{Compact: true}).Apply(k); err != nil {
			return err
		}
		return kong.Help(printHelp).Apply(k)
	})
}

// printHelp prints the help of the command that the user has given or, without a command, of the
// program.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	app, columns := ctx.Model, width(ctx.Stdout)
	text, hint := synopsis(app, app.Node), ""
	switch command := ctx.Selected(); {
	case command != nil:
		text = synopsis(app, command)
	case len(app.Children) > 0:
		text = app.Name + app.Summary()
		hint = fmt.Sprintf("\nRun %q for more information on a command.", app.Name+" <command> --help")
	}
	if _, err := io.WriteString(ctx.Stdout, wrapped("Usage: "+text, columns)); err != nil {
		return err
	}
	flag := app.HelpFlag
	options.NoAppSummary, app.HelpFlag = true, nil // kong prints neither the usage nor the hint
	err := kong.DefaultHelpPrinter(options, ctx)
	app.HelpFlag = flag
	if err == nil && hint != "" {
		_, err = io.WriteString(ctx.Stdout, wrapped(hint, columns))
	}
	return err
}

// wrapped breaks a text between words into lines of at most the given number of columns. Words that
// are longer than a line are not broken.
func wrapped(line string, columns int) string {
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(line, " ") {
		switch {
		case i == 0:
		case used+1+len(word) > columns:
			b.WriteString("\n ")
			used = 1
			fallthrough
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += len(word)
	}
	return b.String() + "\n"
}

// columnsDefault is the width of the help text if the output is not a terminal.
const columnsDefault = 80

// width returns the width of the help text in columns. As in kong, the width of the help text is
// the value of the environment variable COLUMNS or, if COLUMNS is not set, the width of the
// terminal.
func width(w io.Writer) int {
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		return columns
	}
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return columnsDefault
}
