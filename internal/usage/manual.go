package usage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Man returns a program's manual page in the macro language man(7).
func Man(app *kong.Application) string {
	var b strings.Builder
	title := strings.ToUpper(app.Name)
	summary, _, _ := strings.Cut(oneLine(app.Help), ". ")
	fmt.Fprintf(&b, ".TH %s 1 \"\" gobtl\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", title, app.Name,
		roff(strings.TrimSuffix(summary, ".")))
	for _, c := range leaves(app) {
		fmt.Fprintf(&b, ".br\n%s\n", roff(synopsis(app, c)))
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(oneLine(app.Help)))
	for _, c := range commands(app) {
		heading := "OPTIONS"
		if c != app.Node {
			heading = strings.ToUpper(c.Name)
		}
		fmt.Fprintf(&b, ".SH %s\n", roff(heading))
		if c != app.Node {
			fmt.Fprintf(&b, "%s\n", roff(c.Help))
		}
		for _, r := range rows(c) {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(r.name), roff(r.help))
		}
	}
	return b.String()
}

// Markdown returns a program's page of the reference manual, as Markdown text.
func Markdown(app *kong.Application) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nThis page lists the commands and flags of %s. "+
		"It is made from the program.\n\n%s\n\n```\n", app.Name, app.Name, oneLine(app.Help))
	for _, c := range leaves(app) {
		b.WriteString(synopsis(app, c) + "\n")
	}
	b.WriteString("```\n")
	all := commands(app)
	for i, c := range all {
		list := rows(c)
		if c == app.Node {
			fmt.Fprintf(&b, "\nLike every program, %s also takes `--help`, `--version`, "+
				"`--completion SHELL` and `--man`.\n", app.Name)
			if list = slices.DeleteFunc(list, ofAll); len(list) == 0 {
				continue
			}
			b.WriteString("\n## Flags of the program\n")
		} else {
			fmt.Fprintf(&b, "\n## %s %s\n\n%s\n", app.Name, c.Name, c.Help)
		}
		for _, like := range all[:i] {
			if rest, ok := beyond(list, rows(like)); ok {
				fmt.Fprintf(&b, "\nThe command takes all flags of `%s %s`", app.Name, like.Name)
				if list = rest; len(list) > 0 {
					b.WriteString(". The next table has the differences")
				}
				b.WriteString(".\n")
				break
			}
		}
		if len(list) > 0 {
			b.WriteString("\n| write | meaning |\n|---|---|\n")
		}
		for _, r := range list {
			fmt.Fprintf(&b, "| `%s` | %s |\n", cell(r.name), cell(r.help))
		}
	}
	return b.String()
}

// ofAll reports whether a table row describes a flag that every program has.
func ofAll(r row) bool {
	return slices.Contains([]string{"-h, --help", "--version", "--completion SHELL", "--man"}, r.name)
}

// If two commands have at least sharedRowsMin flags in common, the description of the second
// command refers to the first command instead of repeating the common flags.
const sharedRowsMin = 5

// The function "beyond" returns the rows of the argument "list" that the argument "like" does not
// contain. The result "ok" of "beyond" tells whether the argument "list" has all flags of the
// argument "like", and most of these flags have the same help text in both lists.
func beyond(list, like []row) (rest []row, ok bool) {
	shared := 0
	for _, r := range list {
		if slices.Contains(like, r) {
			shared++
		} else {
			rest = append(rest, r)
		}
	}
	for _, l := range like {
		if !slices.ContainsFunc(list, func(r row) bool { return r.name == l.name }) {
			return list, false
		}
	}
	return rest, shared >= sharedRowsMin && 2*shared > len(like)
}

// row describes a flag or an argument of a command by its name and its help text.
type row struct{ name, help string }

// The function "rows" returns a table row for each argument and each flag of a command.
func rows(c *kong.Node) (list []row) {
	for _, a := range c.Positional {
		name := strings.ToUpper(a.Name)
		if a.Tag.PlaceHolder != "" {
			name = a.Tag.PlaceHolder
		}
		list = append(list, row{name, a.Help})
	}
	for _, f := range c.Flags {
		if !f.Hidden {
			list = append(list, row{flagText(f), f.Help})
		}
	}
	return list
}

// flagText returns the names of a flag with a placeholder for the flag's value.
func flagText(f *kong.Flag) string {
	text := strings.Join(names(f), ", ")
	switch {
	case f.Tag.Negatable != "":
		text = strings.Replace(text, "--", "--[no-]", 1)
	case f.IsBool():
	case f.PlaceHolder != "":
		text += " " + f.PlaceHolder
	case f.Enum != "":
		text += " NAME"
	default:
		text += " VALUE"
	}
	return text
}

// The function "leaves" returns the program's commands or, if it has no commands, the program
// itself.
func leaves(app *kong.Application) []*kong.Node {
	if all := commands(app); len(all) > 1 {
		return all[1:]
	}
	return []*kong.Node{app.Node}
}

// The function "synopsis" returns a usage line. The usage line consists of the program's name, the
// command, the command's required flags and the command's arguments.
func synopsis(app *kong.Application, c *kong.Node) string {
	text := app.Name
	switch c {
	case app.Node:
	case app.DefaultCmd:
		text += " [" + c.Name + "]"
	default:
		text += " " + c.Name
	}
	for _, f := range c.Flags {
		if f.Required {
			text += " " + flagText(f)
		}
	}
	text += " [flags]"
	for _, a := range c.Positional {
		name := strings.ToUpper(a.Name)
		if a.Tag.PlaceHolder != "" {
			name = a.Tag.PlaceHolder
		}
		if a.Passthrough {
			name += " ..."
		}
		if !a.Required {
			name = "[" + name + "]"
		}
		text += " " + name
	}
	return text
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// The function "roff" escapes a text for man(7), so that the formatter does not interpret any part
// of the text as a formatting request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(oneLine(text))
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func cell(text string) string { return strings.ReplaceAll(oneLine(text), "|", `\|`) }
