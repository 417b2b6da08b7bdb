package report

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows the progress of a measurement on a terminal. Progress draws nothing during a
// measuring step, because drawing takes CPU time.
type Progress struct {
	bar *progressbar.ProgressBar // nil without a terminal
}

// NewProgress returns a progress bar with the given number of steps. If the writer w is not a
// terminal, the progress bar is invisible.
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

// Begin sets the name of the step that begins.
func (p *Progress) Begin(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// Step advances the progress bar by one completed step of the measurement. Step ignores errors of
// writing to the terminal.
func (p *Progress) Step() {
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

// Finish removes the progress bar from the terminal.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
