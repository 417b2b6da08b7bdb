package usage

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"gobtl/internal/version"
)

// Own defines the flags that all programs of this module have in common. Each program embeds Own in
// the struct that describes its command line for kong.
//
//nolint:lll // A struct tag cannot be broken.
type Own struct {
	Version    printVersion `help:"Print the version and exit." group:"Every program"`
	Completion shell        `help:"Print the completions for a shell and exit: bash, zsh or fish." placeholder:"SHELL" group:"Every program"`
	Man        printMan     `help:"Print the manual page and exit; man -l - shows it." group:"Every program"`
	Reference  printPage    `help:"Print this as a page of Markdown." hidden:""`
}

// Each flag in Own prints a text and ends the program before the parser checks the rest of the
// command line, which may therefore be invalid.
type (
	printVersion bool
	printMan     bool
	printPage    bool
	shell        string
)

// BeforeApply is called by kong.
func (printVersion) BeforeApply(app *kong.Kong) error {
	return printed(app, app.Model.Name+" "+version.String()+"\n")
}

// BeforeApply is called by kong.
func (printMan) BeforeApply(app *kong.Kong) error { return printed(app, Man(app.Model)) }

// BeforeApply is called by kong.
func (printPage) BeforeApply(app *kong.Kong) error { return printed(app, Markdown(app.Model)) }

// BeforeApply is called by kong.
func (shell) BeforeApply(app *kong.Kong, ctx *kong.Context) error {
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Flag.Name != "completion" {
			continue
		}
		name, _ := ctx.FlagValue(p.Flag).(shell)
		text, err := Completion(app.Model, string(name))
		if err != nil {
			return err
		}
		return printed(app, text)
	}
	return nil
}

// The function "printed" writes a text to the standard output, and ends the program.
func printed(app *kong.Kong, text string) error {
	if _, err := io.WriteString(app.Stdout, text); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	app.Exit(0)
	return nil
}
