package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

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

// cells returns those that were asked for.
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
	if c.Out != "" {
		text, err := matrix.JSON(results)
		if err != nil {
			return err
		}
		err = save(c.Out, map[string][]byte{
			"matrix.txt": []byte(matrix.Table(results)), "matrix.csv": matrix.CSV(results),
			"matrix.json": text,
		})
		if err == nil {
			err = maps(c.Out, results)
		}
		if err != nil {
			return err
		}
	}
	if c.UpdateDocs == "" {
		return nil
	}
	doc, err := os.ReadFile(c.UpdateDocs)
	if err != nil {
		return err
	}
	if doc, err = matrix.UpdateDocs(doc, results, "plots"); err != nil {
		return fmt.Errorf("%s: %w", c.UpdateDocs, err)
	}
	if err := maps(filepath.Join(filepath.Dir(c.UpdateDocs), "plots"), results); err != nil {
		return err
	}
	return os.WriteFile(c.UpdateDocs, doc, 0o644)
}

// maps writes the maps into a folder.
func maps(folder string, results []matrix.Result) error {
	files := map[string][]byte{}
	for _, m := range matrix.Maps() {
		files[m.File] = []byte(m.SVG(results))
	}
	return save(folder, files)
}

func save(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
