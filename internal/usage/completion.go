package usage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion returns a script for tab completion of a program's commands, flags and values in bash,
// zsh or fish. If the script has no completion for a word of the command line, the shell completes
// the word with file names.
func Completion(app *kong.Application, shell string) (string, error) {
	switch shell {
	case "bash":
		return bash(app), nil
	case "zsh":
		return "#compdef " + app.Name + "\nautoload -U +X bashcompinit && bashcompinit\n" +
			bash(app), nil
	case "fish":
		return fish(app), nil
	}
	return "", fmt.Errorf("--completion %q: want bash, zsh or fish", shell)
}

// The function "commands" returns the program and its commands, except hidden ones. The first
// element of the result of "commands" is the program itself.
func commands(app *kong.Application) []*kong.Node {
	list := []*kong.Node{app.Node}
	for _, c := range app.Children {
		if !c.Hidden && c.Type == kong.CommandNode {
			list = append(list, c)
		}
	}
	return list
}

func nameOf(app *kong.Application, c *kong.Node) string {
	if c == app.Node {
		return ""
	}
	return c.Name
}

// flagsOf returns the flags that may follow a command.
func flagsOf(app *kong.Application, c *kong.Node) (list []*kong.Flag) {
	nodes := []*kong.Node{app.Node}
	switch {
	case c != app.Node:
		nodes = append(nodes, c)
	case app.DefaultCmd != nil:
		nodes = append(nodes, app.DefaultCmd)
	}
	for _, n := range nodes {
		for _, f := range n.Flags {
			if !f.Hidden {
				list = append(list, f)
			}
		}
	}
	return list
}

// valuesOf returns the permitted values of a flag or an argument, or nil if there is no fixed set
// of values.
func valuesOf(v *kong.Value) []string {
	switch {
	case v.Enum != "":
		return v.EnumSlice()
	case v.Name == "completion":
		return []string{"bash", "zsh", "fish"}
	}
	return nil
}

// The function "words" returns all words (commands, values and flags) that may follow a command on
// the command line.
func words(app *kong.Application, c *kong.Node) (list []string) {
	if c == app.Node {
		for _, sub := range commands(app)[1:] {
			list = append(list, sub.Name)
		}
	}
	for _, a := range c.Positional {
		list = append(list, valuesOf(a)...)
	}
	for _, f := range flagsOf(app, c) {
		list = append(list, "--"+f.Name)
		if f.Tag.Negatable != "" {
			list = append(list, "--no-"+f.Name)
		}
	}
	return list
}

func names(f *kong.Flag) []string {
	if f.Short == 0 {
		return []string{"--" + f.Name}
	}
	return []string{"-" + string(f.Short), "--" + f.Name}
}

// bash returns the completion script for bash. The bash script finds the command among the words of
// the command line, and checks whether the word before the cursor is a flag. After a flag with a
// fixed set of values, the script completes these values. After a flag that takes any value, the
// shell completes file names.
func bash(app *kong.Application) string {
	var b strings.Builder
	all := commands(app)
	fmt.Fprintf(&b, "_%s() {\n  local cur=${COMP_WORDS[COMP_CWORD]} command= i\n"+
		"  local prev=${COMP_WORDS[COMP_CWORD-1]}\n", app.Name)
	if len(all) > 1 {
		subs := make([]string, 0, len(all)-1)
		for _, c := range all[1:] {
			subs = append(subs, c.Name)
		}
		fmt.Fprintf(&b, "  for ((i = 1; i < COMP_CWORD; i++)); do\n    case ${COMP_WORDS[i]} in\n"+
			"      %s) command=${COMP_WORDS[i]}; break ;;\n    esac\n  done\n", strings.Join(subs, "|"))
	}
	b.WriteString("  COMPREPLY=()\n  case $command,$prev in\n")
	for _, c := range all {
		for _, f := range flagsOf(app, c) {
			if f.IsBool() {
				continue
			}
			at := make([]string, 0, 2)
			for _, n := range names(f) {
				at = append(at, nameOf(app, c)+","+n)
			}
			reply := ""
			if values := valuesOf(f.Value); values != nil {
				reply = fmt.Sprintf("COMPREPLY=($(compgen -W '%s' -- \"$cur\")); ",
					strings.Join(values, " "))
			}
			fmt.Fprintf(&b, "    %s) %sreturn ;;\n", strings.Join(at, "|"), reply)
		}
	}
	b.WriteString("  esac\n  case $command in\n")
	for _, c := range all {
		fmt.Fprintf(&b, "    '%s') COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n",
			nameOf(app, c), strings.Join(words(app, c), " "))
	}
	fmt.Fprintf(&b, "  esac\n}\ncomplete -o default -F _%s %s\n", app.Name, app.Name)
	return b.String()
}

// fish returns the completion script for fish, with one line for each command and each flag.
func fish(app *kong.Application) string {
	var b strings.Builder
	all := commands(app)
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
	for _, c := range all[1:] {
		fmt.Fprintf(&b, "complete -c %s -f -n __fish_use_subcommand -a %s -d %s\n", app.Name, c.Name,
			quote(c.Help))
	}
	for _, c := range all {
		when := ""
		if c != app.Node {
			when = " -n '__fish_seen_subcommand_from " + c.Name + "'"
		}
		for _, f := range flagsOf(app, c) {
			if c != app.Node && slices.Contains(app.Flags, f) {
				continue // The program's own line has the flag.
			}
			line := "complete -c " + app.Name + when + " -l " + f.Name
			if f.Short != 0 {
				line += " -s " + string(f.Short)
			}
			if values := valuesOf(f.Value); values != nil {
				line += " -x -a " + quote(strings.Join(values, " "))
			} else if !f.IsBool() {
				line += " -r"
			}
			b.WriteString(line + " -d " + quote(f.Help) + "\n")
		}
	}
	return b.String()
}
