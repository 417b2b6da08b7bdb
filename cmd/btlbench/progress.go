package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressBar shows the rounds done on a terminal. It draws between rounds only: drawing takes the
// CPU that is being measured.
type progressBar struct {
	bar *progressbar.ProgressBar // nil without a terminal
}

func newProgressBar(w io.Writer, rounds int) *progressBar {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progressBar{}
	}
	return &progressBar{progressbar.NewOptions(rounds,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)}
}

// begin names what is measured next.
func (p *progressBar) begin(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// step notes a round done. A terminal that went away is no reason to stop.
func (p *progressBar) step() {
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

// finish clears the bar.
func (p *progressBar) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
