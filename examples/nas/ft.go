package main

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/cmplx"

	"gobtl/mpi"
)

// ftClass is a problem of kernel ft: the box, and the published checksum after each time step.
type ftClass struct {
	x, y, z   int
	checksums []complex128
}

var ftClasses = map[string]ftClass{
	"S": {64, 64, 64, []complex128{
		5.546087004964e+02 + 4.845363331978e+02i, 5.546385409189e+02 + 4.865304269511e+02i,
		5.546148406171e+02 + 4.883910722336e+02i, 5.545423607415e+02 + 4.901273169046e+02i,
		5.544255039624e+02 + 4.917475857993e+02i, 5.542683411902e+02 + 4.932597244941e+02i,
	}},
	"W": {128, 128, 32, []complex128{
		5.673612178944e+02 + 5.293246849175e+02i, 5.631436885271e+02 + 5.282149986629e+02i,
		5.594024089970e+02 + 5.270996558037e+02i, 5.560698047020e+02 + 5.260027904925e+02i,
		5.530898991250e+02 + 5.249400845633e+02i, 5.504159734538e+02 + 5.239212247086e+02i,
	}},
}

const (
	ftAlpha     = 1e-6
	ftTolerance = 1e-12
	ftSamples   = 1024 // values that a checksum adds up
)

// box is a rank's part of the heat equation. Space is divided by z, with x next to each other in
// memory; frequencies are divided by y, with z next to each other.
//
//	space [z of this rank][y][x]  <-- transpose: all to all -->  [y of this rank][x][z] frequencies
type box struct {
	c             *mpi.Comm
	class         ftClass
	ny, nz        int // of this rank
	space, packed []complex128
	freq, decayed []complex128
	twiddle       []float64      // what each frequency loses in a time step
	row           []complex128   // one line of the box
	roots         [][]complex128 // by log2 of the length
}

// ft solves the heat equation: a transform there, and for each time step one back.
func ft(ctx context.Context, c *mpi.Comm, name string) (verdict, error) {
	class := ftClasses[name]
	if class.y%c.Size() != 0 || class.z%c.Size() != 0 {
		return verdict{}, fmt.Errorf("%d ranks do not divide a box of %d x %d x %d", c.Size(), class.x,
			class.y, class.z)
	}
	b := newBox(c, class)
	v := verdict{what: "checksums"}
	if err := b.forward(ctx); err != nil {
		return v, err
	}
	for _, want := range class.checksums {
		for i, t := range b.twiddle {
			b.freq[i] *= complex(t, 0)
		}
		if err := b.back(ctx); err != nil {
			return v, err
		}
		got, err := b.checksum(ctx)
		if err != nil {
			return v, err
		}
		v.compare(real(got), real(want), ftTolerance)
		v.compare(imag(got), imag(want), ftTolerance)
	}
	return v, nil
}

func newBox(c *mpi.Comm, class ftClass) *box {
	b := &box{c: c, class: class, ny: class.y / c.Size(), nz: class.z / c.Size()}
	n := class.x * class.y * b.nz
	b.space, b.packed = make([]complex128, n), make([]complex128, n)
	b.freq, b.decayed, b.twiddle = make([]complex128, n), make([]complex128, n), make([]float64, n)
	long := max(class.x, class.y, class.z)
	b.row = make([]complex128, long)
	b.roots = make([][]complex128, bits.Len(uint(long)))
	for k := range b.roots {
		b.roots[k] = make([]complex128, 1<<k/2)
		for i := range b.roots[k] {
			b.roots[k][i] = cmplx.Rect(1, 2*math.Pi*float64(i)/float64(int(1)<<k))
		}
	}
	r := random(cgisftSeed)
	r.skip(2 * uint64(class.x*class.y) * uint64(c.Rank()*b.nz))
	for i := range b.space {
		re := r.next()
		b.space[i] = complex(re, r.next())
	}
	square := func(i, n int) float64 { // of a frequency from -n/2 to n/2-1
		f := float64((i+n/2)%n - n/2)
		return f * f
	}
	for i := range b.twiddle {
		z, x, y := i%class.z, i/class.z%class.x, i/class.z/class.x+c.Rank()*b.ny
		sum := square(x, class.x) + square(y, class.y) + square(z, class.z)
		b.twiddle[i] = math.Exp(-4 * ftAlpha * math.Pi * math.Pi * sum)
	}
	return b
}

// forward transforms space into freq.
func (b *box) forward(ctx context.Context) error {
	b.planes(false)
	b.pack(b.space, b.packed)
	if err := mpi.Alltoall(ctx, b.c, b.packed, b.decayed); err != nil {
		return err
	}
	b.unpackLines(b.decayed, b.freq)
	for i := 0; i < len(b.freq); i += b.class.z {
		b.transform(b.freq[i:i+b.class.z], false)
	}
	return nil
}

// back transforms freq into space, and leaves freq as it is.
func (b *box) back(ctx context.Context) error {
	copy(b.decayed, b.freq)
	for i := 0; i < len(b.decayed); i += b.class.z {
		b.transform(b.decayed[i:i+b.class.z], true)
	}
	b.packLines(b.decayed, b.packed)
	if err := mpi.Alltoall(ctx, b.c, b.packed, b.decayed); err != nil {
		return err
	}
	b.unpack(b.decayed, b.space)
	b.planes(true)
	return nil
}

// planes transforms each plane of space, by x and by y.
func (b *box) planes(inverse bool) {
	nx, ny := b.class.x, b.class.y
	for plane := 0; plane < len(b.space); plane += nx * ny {
		p := b.space[plane : plane+nx*ny]
		for y := range ny {
			b.transform(p[y*nx:(y+1)*nx], inverse)
		}
		for x := range nx {
			for y := range ny {
				b.row[y] = p[y*nx+x]
			}
			b.transform(b.row[:ny], inverse)
			for y := range ny {
				p[y*nx+x] = b.row[y]
			}
		}
	}
}

// blocks calls fn for every value of space, with its place there and its place among the blocks
// that go to, or come from, the ranks that have its y.
func (b *box) blocks(fn func(space, block int)) {
	block := 0
	for y := range b.class.y {
		for x := range b.class.x {
			for z := range b.nz {
				fn((z*b.class.y+y)*b.class.x+x, block)
				block++
			}
		}
	}
}

func (b *box) pack(space, blocks []complex128) {
	b.blocks(func(s, i int) { blocks[i] = space[s] })
}

func (b *box) unpack(blocks, space []complex128) {
	b.blocks(func(s, i int) { space[s] = blocks[i] })
}

// lines calls fn for every value of freq, with its place there and its place among the blocks that
// come from, or go to, the ranks that have its z.
func (b *box) lines(fn func(freq, block int)) {
	block := 0
	for rank := range b.c.Size() {
		for line := range b.ny * b.class.x {
			for z := range b.nz {
				fn(line*b.class.z+rank*b.nz+z, block)
				block++
			}
		}
	}
}

func (b *box) unpackLines(blocks, freq []complex128) {
	b.lines(func(f, i int) { freq[f] = blocks[i] })
}

func (b *box) packLines(freq, blocks []complex128) {
	b.lines(func(f, i int) { blocks[i] = freq[f] })
}

// checksum adds up values from all over the box.
func (b *box) checksum(ctx context.Context) (complex128, error) {
	var sum [2]float64
	for j := 1; j <= ftSamples; j++ {
		x, y, z := j%b.class.x, 3*j%b.class.y, 5*j%b.class.z
		if z -= b.c.Rank() * b.nz; z >= 0 && z < b.nz {
			value := b.space[(z*b.class.y+y)*b.class.x+x]
			sum[0] += real(value)
			sum[1] += imag(value)
		}
	}
	err := mpi.Allreduce(ctx, b.c, sum[:], sum[:], mpi.Sum[float64]())
	points := float64(b.class.x * b.class.y * b.class.z)
	return complex(sum[0]/points, sum[1]/points), err
}

// transform is the discrete Fourier transform of a line whose length is a power of two, without a
// factor in front of it: values in bit-reversed order, then butterflies of growing size.
func (b *box) transform(line []complex128, inverse bool) {
	width := bits.Len(uint(len(line))) - 1
	for i := range line {
		if k := int(bits.Reverse64(uint64(i)) >> (64 - width)); k > i {
			line[i], line[k] = line[k], line[i]
		}
	}
	for k := 1; k <= width; k++ {
		half, roots := 1<<k/2, b.roots[k]
		for at := 0; at < len(line); at += 2 * half {
			low, high := line[at:at+half], line[at+half:at+2*half]
			for i, root := range roots {
				if !inverse {
					root = cmplx.Conj(root)
				}
				t := root * high[i]
				low[i], high[i] = low[i]+t, low[i]-t
			}
		}
	}
}
