package report

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows how far a measurement is, on a terminal. It draws between steps only: drawing
// takes the CPU that is being measured.
type Progress struct {
	bar *progressbar.ProgressBar // nil without a terminal
}

// NewProgress returns a bar of so many steps; on what is no terminal it shows nothing.
func NewProgress(w io.Writer, steps int) *Progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &Progress{}
	}
	return &Progress{progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)}
}

// Begin names what is measured next.
func (p *Progress) Begin(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// Step notes a step done. A terminal that went away is no reason to stop.
func (p *Progress) Step() {
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

// Finish clears the bar.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
