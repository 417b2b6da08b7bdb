package report

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows the progress of a measurement on a terminal. Progress draws only between steps,
// because drawing takes time of the measured CPU.
type Progress struct {
	bar *progressbar.ProgressBar // nil without a terminal
}

// NewProgress returns a bar with the given number of steps. If w is not a terminal, the bar shows
// nothing.
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

// Step records a completed step, and ignores errors of the terminal.
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
