//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"gobtl/internal/plain"
)

// listing is a table that the command show writes as text. If the table is wider than the terminal,
// each row becomes a block of lines.
type listing struct {
	head []string
	rows [][]string
}

func newListing(head ...string) *listing { return &listing{head: head} }

func (l *listing) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = plain.Text(fmt.Sprint(c)) // it may be a text of a peer
	}
	l.rows = append(l.rows, row)
}

// render returns the text of the listing for a terminal with the given number of columns, where 0
// means no limit.
func (l *listing) render(columns int) string {
	t := newTable()
	head := make(table.Row, len(l.head))
	var right []table.ColumnConfig
	for i, h := range l.head {
		head[i] = h
		if l.numbers(i) {
			right = append(right, table.ColumnConfig{
				Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight,
			})
		}
	}
	t.SetColumnConfigs(right)
	t.AppendHeader(head)
	for _, r := range l.rows {
		row := make(table.Row, len(r))
		for i, c := range r {
			row[i] = c
		}
		t.AppendRow(row)
	}
	out := t.Render()
	if columns <= 0 || len(l.rows) == 0 || text.LongestLineLen(out) <= columns {
		return out
	}
	return l.upright(columns)
}

// numbers reports whether a column contains only whole numbers.
func (l *listing) numbers(column int) bool {
	for _, r := range l.rows {
		if r[column] == "" || strings.Trim(r[column], "0123456789") != "" {
			return false
		}
	}
	return true
}

// upright returns each row as a block with one line for each cell that is not empty.
func (l *listing) upright(columns int) string {
	name := 0
	for _, h := range l.head {
		name = max(name, text.StringWidth(h))
	}
	var parts []string
	for _, r := range l.rows {
		t := newTable()
		// Two spaces follow each column.
		t.SetColumnConfigs([]table.ColumnConfig{
			{Number: 1, WidthMin: name},
			{Number: 2, WidthMax: max(columns-name-4, 10), WidthMaxEnforcer: text.WrapSoft},
		})
		for i, c := range r {
			if c != "" {
				t.AppendRow(table.Row{l.head[i], c})
			}
		}
		parts = append(parts, t.Render())
	}
	return strings.Join(parts, "\n\n")
}

// newTable returns a table in the style of the program.
func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}

// terminal reports whether w is a terminal, and returns its number of columns.
func terminal(w io.Writer) (columns int, is bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, true
	}
	return columns, true
}
