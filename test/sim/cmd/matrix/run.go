package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"gobtl/internal/report"
	"gobtl/test/sim/matrix"
)

type cli struct {
	Profile    []string `default:"usnic,adaptive" help:"Recovery profiles."`
	Only       []string `sep:";" help:"Only cells whose names have these words, as '1G;loss 1%'."`
	Quick      bool     `help:"Send less: rougher figures."`
	Workers    int      `default:"0" help:"Cells at once; 0 takes the number of processors."`
	Out        string   `help:"Folder for matrix.txt, .csv, .json and the maps." type:"path"`
	UpdateDocs string   `help:"Document to write summary and maps into." type:"existingfile"`
}

func (c *cli) run(out, diag io.Writer) error {
	cells := c.cells()
	if len(cells) == 0 {
		return errors.New("no cell has these words")
	}
	effort := matrix.Full
	if c.Quick {
		effort = matrix.Quick
	}
	workers := c.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	results, err := matrix.Run(cells, c.Profile, effort, workers, func(done, of int) {
		if done%20 == 0 || done == of {
			fmt.Fprintf(diag, "%d of %d\n", done, of)
		}
	})
	if err != nil {
		return err
	}
	if c.Out == "" && c.UpdateDocs == "" || len(c.Only) > 0 {
		_, err = io.WriteString(out, matrix.Table(results))
	} else {
		_, err = io.WriteString(out, matrix.Summary(results))
	}
	if err != nil {
		return err
	}
	return c.write(results)
}

// cells returns the requested cells.
func (c *cli) cells() []matrix.Cell {
	var some []matrix.Cell
next:
	for _, cell := range matrix.Cells() {
		for _, word := range c.Only {
			if !strings.Contains(" "+cell.String()+" ", " "+word+" ") {
				continue next
			}
		}
		some = append(some, cell)
	}
	return some
}

func (c *cli) write(results []matrix.Result) error {
	if c.Out == "" && c.UpdateDocs == "" {
		return nil
	}
	files := map[string][]byte{}
	if c.Out != "" {
		text, err := matrix.JSON(results)
		if err != nil {
			return err
		}
		files[filepath.Join(c.Out, "matrix.txt")] = []byte(matrix.Table(results))
		files[filepath.Join(c.Out, "matrix.csv")] = matrix.CSV(results)
		files[filepath.Join(c.Out, "matrix.json")] = text
	}
	if c.UpdateDocs != "" {
		doc, err := os.ReadFile(c.UpdateDocs)
		if err != nil {
			return err
		}
		if files[c.UpdateDocs], err = matrix.UpdateDocs(doc, results); err != nil {
			return fmt.Errorf("%s: %w", c.UpdateDocs, err)
		}
	}
	for _, m := range matrix.Maps() {
		svg, err := m.SVG(results)
		if err != nil {
			return err
		}
		if c.Out != "" {
			files[filepath.Join(c.Out, m.File)] = []byte(svg)
		}
		if c.UpdateDocs != "" {
			files[filepath.Join(report.PlotFolder(c.UpdateDocs), m.File)] = []byte(svg)
		}
	}
	_, err := report.WriteFiles(files)
	return err
}
