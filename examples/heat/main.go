package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log"
	"math"
	"os"
	"time"

	_ "gobtl/fabric/shm"
	_ "gobtl/fabric/udp"
	"gobtl/mpi"
)

// job has the parameters of the computation.
type job struct {
	cells, steps      int
	picture, provider string
}

func main() {
	var j job
	flag.IntVar(&j.cells, "cells", 128, "the plate has so many rows and columns")
	flag.IntVar(&j.steps, "steps", 1000, "steps in time")
	flag.StringVar(&j.picture, "picture", "", "file to draw the plate into, as PNG")
	flag.StringVar(&j.provider, "provider", "",
		"the fabric: udp or shm; empty is shm if all ranks are on one host, else udp")
	limit := flag.Duration("limit", 10*time.Minute, "time after which the job is given up")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := run(ctx, os.Stdout, j); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, j job) (err error) {
	var cfg mpi.Config
	cfg.Fabric.Provider = j.provider
	world, err := mpi.Init(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if e := world.Finalize(ctx); err == nil {
			err = e
		}
	}()
	dims := make([]int, 2) // as square as can be
	if err := mpi.DimsCreate(world.Size(), dims); err != nil {
		return err
	}
	rows, columns := dims[0], dims[1]
	if j.cells < rows || j.steps < 0 {
		return fmt.Errorf("%d cells are less than %d tiles need, or %d steps below 0", j.cells, rows,
			j.steps)
	}
	grid, err := mpi.NewCart(ctx, &world.Comm, dims, make([]bool, 2))
	if err != nil {
		return err
	}
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return err
	}
	t := newTile(j.cells, at[0], rows, at[1], columns)
	if err := t.place(grid); err != nil {
		return err
	}
	begin := time.Now()
	for range j.steps {
		if err := t.step(ctx); err != nil {
			return err
		}
	}
	took := time.Since(begin)
	plate, err := gather(ctx, &world.Comm, t, j.cells, rows, columns)
	if err != nil || world.Rank() != 0 {
		return err
	}
	if err := check(plate, j); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d x %d cells, %d steps, %d x %d ranks: %.3f s, equal to one rank's\n",
		j.cells, j.cells, j.steps, rows, columns, took.Seconds())
	if err != nil || j.picture == "" {
		return err
	}
	return draw(j.picture, plate, j.cells)
}

// gather brings all tiles to rank 0, as one plate.
func gather(ctx context.Context, c *mpi.Comm, t *tile, cells, rows, columns int,
) ([]float64, error) {
	mine := make([]float64, 0, t.rows*t.columns)
	for row := 1; row <= t.rows; row++ {
		mine = append(mine, t.line(row)...)
	}
	counts := make([]int, c.Size())
	for rank := range counts {
		other := newTile(cells, rank/columns, rows, rank%columns, columns)
		counts[rank] = other.rows * other.columns
	}
	all := make([]float64, cells*cells)
	if err := mpi.Gatherv(ctx, c, mine, all, counts, 0); err != nil || c.Rank() != 0 {
		return nil, err
	}
	plate := make([]float64, cells*cells)
	for rank := range counts {
		top, left := share(cells, rank/columns, rows), share(cells, rank%columns, columns)
		width := share(cells, rank%columns+1, columns) - left
		for i := range counts[rank] {
			plate[(top+i/width)*cells+left+i%width] = all[i]
		}
		all = all[counts[rank]:]
	}
	return plate, nil
}

// check solves the same with one tile, and compares.
func check(plate []float64, j job) error {
	t := newTile(j.cells, 0, 1, 0, 1)
	for range j.steps {
		t.compute(1, t.rows, 1, t.columns)
		t.now, t.next = t.next, t.now
	}
	for row := range j.cells {
		for column, want := range t.line(row + 1) {
			if got := plate[row*j.cells+column]; got != want {
				return fmt.Errorf("cell %d, %d is %v, alone it is %v", row, column, got, want)
			}
		}
	}
	return nil
}

// draw draws the plate, cold blue and hot yellow.
func draw(file string, plate []float64, cells int) (err error) {
	picture := image.NewRGBA(image.Rect(0, 0, cells, cells))
	for i, heat := range plate {
		warm := uint8(255 * math.Sqrt(heat)) // most of the plate is cool: show more of that
		c := color.RGBA{R: warm, G: uint8(200 * heat), B: 160 - warm/2, A: 255}
		picture.SetRGBA(i%cells, i/cells, c)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return png.Encode(f, picture)
}
