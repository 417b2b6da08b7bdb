package report

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// NewWriter returns a table of go-pretty in the common style of all programs. A table in the common
// style has no frame, and its headers are not converted to capitals. If w is not nil, a call of the
// table's method Render writes the table to w.
func NewWriter(w io.Writer) table.Writer {
	t := table.NewWriter()
	if w != nil {
		t.SetOutputMirror(w)
	}
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	style.Format.Header = text.FormatDefault
	style.Title.Align = text.AlignLeft
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}

// Table is a table of numbers and texts. The columns whose indices (from 0) are in the field Left
// are aligned to the left, and all columns that are not in Left are aligned to the right.
type Table struct {
	Heads [][]string // rows above the rule
	Rows  [][]string
	Left  []int
}

// String formats the table. Each line of the formatted table ends with a newline, and the
// horizontal line below the headers is as wide as the rows.
func (t *Table) String() string {
	w := NewWriter(nil)
	row := func(cells []string) (r table.Row) {
		for _, cell := range cells {
			r = append(r, cell)
		}
		return r
	}
	var configs []table.ColumnConfig
	for _, head := range t.Heads {
		w.AppendHeader(row(head))
		for i := len(configs); i < len(head); i++ {
			c := table.ColumnConfig{
				Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight,
			}
			if slices.Contains(t.Left, i) {
				c.Align, c.AlignHeader = text.AlignLeft, text.AlignLeft
			}
			configs = append(configs, c)
		}
	}
	w.SetColumnConfigs(configs)
	for _, cells := range t.Rows {
		w.AppendRow(row(cells))
	}
	return fitRule(w.Render())
}

const ruleMark = "─"

// fitRule shortens the horizontal line below the table's headers to the width of the rows.
func fitRule(rendered string) string {
	columns := Columns(rendered)
	var b strings.Builder
	for line := range strings.Lines(rendered + "\n") {
		if strings.HasPrefix(line, ruleMark) {
			line = strings.Repeat(ruleMark, columns) + "\n"
		}
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// Columns returns the width in characters of a rendered table, not counting the horizontal line
// below the headers.
func Columns(rendered string) (columns int) {
	for line := range strings.Lines(rendered) {
		if !strings.HasPrefix(line, ruleMark) {
			columns = max(columns, utf8.RuneCountInString(strings.TrimRight(line, " \n")))
		}
	}
	return columns
}

// WrapColumns is the largest width of the lines that Wrap returns.
const WrapColumns = 100

// Wrap breaks a long line at blanks into lines of at most WrapColumns, indents all lines but the
// first, and appends a newline.
func Wrap(line string) string {
	const indent = "  "
	line = text.WrapSoft(strings.Join(strings.Fields(line), " "), WrapColumns-len(indent))
	return strings.ReplaceAll(line, "\n", "\n"+indent) + "\n"
}
