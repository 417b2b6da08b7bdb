package mpi

import (
	"fmt"
	"math"
	"sort"

	"gobtl/pml"
)

// Layout describes a sequence of blocks of values in a slice, like a derived datatype of MPI. The
// blocks need not be adjacent. Each method of a Layout works like the function of the same name,
// but sends or receives the values of the Layout's blocks. A message that is sent from a Layout can
// be received into a slice or into a different Layout. A Layout can be used many times, by any
// goroutine. A Layout refers to the slice from which it was made. Sends of a Layout read the slice
// from which the Layout was made, and receives of the Layout write to this slice. The blocks of a
// Layout that is used for a receive should not overlap.
type Layout[T any] struct {
	shape

	data []T
	unit int // bytes of a value
}

// The type "shape" is a Layout whose sizes and offsets are in bytes. The type "shape" implements
// pml.Layout.
type shape struct {
	mem           []byte
	bytes         int
	block, stride int   // bytes of a block, and between block beginnings
	first         int   // offset of the first of the regular blocks
	starts        []int // offsets of irregular blocks; nil: regular
	ends          []int // end of each block in the message; nil: equal blocks
}

// Strided returns a layout of equal blocks at equal distances (MPI_Type_vector). The argument
// "count" is the number of blocks, and "block" is the number of values in each block. The argument
// "stride" is the number of values from the beginning of one block to the beginning of the next
// block. The first block is at the beginning of the slice "data". For example, a column of a matrix
// is a Strided layout whose stride is the length of a row. If the argument "stride" is negative,
// the first block is at the end of the slice "data", and each following block begins -stride values
// before the preceding block. Strided returns ErrType for a type T whose values cannot be sent.
// Strided returns ErrBounds if the slice "data" is too short, or if the argument "count" or "block"
// is negative.
func Strided[T any](data []T, count, block, stride int) (*Layout[T], error) {
	b, err := bytesOf(data)
	if err != nil {
		return nil, err
	}
	l := &Layout[T]{data: data, unit: sizeOf[T]()}
	if l.mem = b; min(count, block) == 0 { // neither of them negative
		return l, nil
	}
	most := math.MaxInt / l.unit // blocks may overlap
	if count > 0 && block > 0 && block <= len(data) && count <= most/block {
		apart, left := stride, len(data)-block
		if stride < 0 {
			apart, l.first = -stride, left*l.unit
		}
		if apart == 0 || count == 1 || apart > 0 && count-1 <= left/apart {
			l.block, l.stride, l.bytes = block*l.unit, stride*l.unit, count*block*l.unit
			return l, nil
		}
	}
	return nil, fmt.Errorf("%w: %d blocks of %d values, %d apart", ErrBounds, count, block, stride)
}

// IndexedBlocks returns a layout of equal blocks at any positions (MPI_Type_create_indexed_block).
// The argument "block" is the number of values in each block, and block number i begins at the
// index starts[i] of the slice "data". The errors of IndexedBlocks are those of Strided.
func IndexedBlocks[T any](data []T, starts []int, block int) (*Layout[T], error) {
	b, err := bytesOf(data)
	if err != nil {
		return nil, err
	}
	l := &Layout[T]{data: data, unit: sizeOf[T]()}
	l.mem, l.block, l.bytes = b, block*l.unit, len(starts)*block*l.unit
	for _, start := range starts {
		if block < 0 || start < 0 || start > len(data)-block {
			return nil, fmt.Errorf("%w: %d values from %d on, of %d", ErrBounds, block, start, len(data))
		}
		l.starts = append(l.starts, start*l.unit)
	}
	return l, nil
}

// Indexed returns a layout of blocks, where block i begins at the index starts[i] of the slice
// "data" and has lengths[i] values (MPI_Type_indexed). The errors of Indexed are those of Strided,
// and ErrCount if the slices "starts" and "lengths" differ in length.
func Indexed[T any](data []T, starts, lengths []int) (*Layout[T], error) {
	if len(starts) != len(lengths) {
		return nil, fmt.Errorf("%w: %d starts, %d lengths", ErrCount, len(starts), len(lengths))
	}
	b, err := bytesOf(data)
	if err != nil {
		return nil, err
	}
	l := &Layout[T]{data: data, unit: sizeOf[T]()}
	l.mem, l.ends = b, []int{}
	for i, start := range starts {
		n := lengths[i]
		if n < 0 || start < 0 || start > len(data)-n {
			return nil, fmt.Errorf("%w: %d values from %d on, of %d", ErrBounds, n, start, len(data))
		}
		if n > 0 {
			l.bytes += n * l.unit
			l.starts, l.ends = append(l.starts, start*l.unit), append(l.ends, l.bytes)
		}
	}
	return l, nil
}

// Subarray returns the layout of a part of an array with any number of dimensions, in row-major
// order (MPI_Type_create_subarray). The slices "shape", "part" and "start" have one entry for each
// dimension. For each dimension, "shape" has the size of the array, "part" has the size of the
// part, and "start" has the first index of the part. Subarray returns ErrType for a type T whose
// values cannot be sent, and ErrBounds if the part is not within the array. Subarray returns
// ErrCount if the slices "shape", "part" and "start" differ in length, or if the array does not
// have len(data) values.
func Subarray[T any](data []T, shape, part, start []int) (*Layout[T], error) {
	dims := len(shape)
	if dims == 0 || len(part) != dims || len(start) != dims {
		return nil, fmt.Errorf("%w: %d, %d and %d dimensions", ErrCount, dims, len(part), len(start))
	}
	all, rows := 1, 1
	for i, n := range shape {
		if n < 0 || part[i] < 0 || start[i] < 0 || start[i] > n-part[i] {
			return nil, fmt.Errorf("%w: %d from %d on, of %d", ErrBounds, part[i], start[i], n)
		}
		if n > 0 && all > math.MaxInt/n {
			return nil, fmt.Errorf("%w: %v values", ErrCount, shape)
		}
		if all *= n; i < dims-1 {
			rows *= part[i]
		}
	}
	if all != len(data) {
		return nil, fmt.Errorf("%w: %v values are not %d", ErrCount, shape, len(data))
	}
	if all == 0 {
		rows = 0 // and no product of other parts
	}
	starts, at := make([]int, 0, rows), make([]int, dims) // at: index of a row within the part
	for range rows {
		place := 0
		for i, n := range shape {
			place = place*n + start[i] + at[i]
		}
		starts = append(starts, place)
		for i := dims - 2; i >= 0; i-- {
			if at[i]++; at[i] < part[i] {
				break
			}
			at[i] = 0
		}
	}
	return IndexedBlocks(data, starts, part[dims-1])
}

// Len returns the number of values of the layout.
func (l *Layout[T]) Len() int { return l.bytes / l.unit }

// Pack copies the values of the layout, but at most len(to) values, to the slice "to", and returns
// the number of copied values (MPI_Pack).
func (l *Layout[T]) Pack(to []T) int {
	n := min(len(to), l.Len())
	b, _ := bytesOf(to[:n]) // the type was already checked
	l.shape.Gather(b, 0)
	return n
}

// Unpack copies the values of the slice "from", but at most Len() values, to the positions that the
// layout describes, and returns the number of copied values (MPI_Unpack).
func (l *Layout[T]) Unpack(from []T) int {
	n := min(len(from), l.Len())
	b, _ := bytesOf(from[:n])
	l.shape.Scatter(b, 0)
	return n
}

func (s *shape) layout() pml.Layout {
	if s == nil {
		return nil
	}
	return s
}

// Bytes implements pml.Layout.
func (s *shape) Bytes() int { return s.bytes }

// Run implements pml.Layout.
func (s *shape) Run(at int) []byte {
	i, skip := s.find(at)
	from := s.start(i)
	return s.mem[from+skip : from+s.length(i)]
}

func (s *shape) start(i int) int {
	if s.starts != nil {
		return s.starts[i]
	}
	return s.first + i*s.stride
}

// Gather implements pml.Layout.
func (s *shape) Gather(to []byte, at int) {
	if s.numbers(len(to), at) {
		for i := at / s.block; len(to) > 0; i, to = i+1, to[8:] {
			*(*[8]byte)(to) = *(*[8]byte)(s.mem[s.start(i):])
		}
		return
	}
	for i, skip := s.find(at); len(to) > 0; i, skip = i+1, 0 {
		n := min(s.length(i)-skip, len(to))
		copy(to[:n], s.mem[s.start(i)+skip:])
		to = to[n:]
	}
}

// Scatter implements pml.Layout.
func (s *shape) Scatter(from []byte, at int) {
	if s.numbers(len(from), at) {
		for i := at / s.block; len(from) > 0; i, from = i+1, from[8:] {
			*(*[8]byte)(s.mem[s.start(i):]) = *(*[8]byte)(from)
		}
		return
	}
	for i, skip := s.find(at); len(from) > 0; i, skip = i+1, 0 {
		n := min(s.length(i)-skip, len(from))
		copy(s.mem[s.start(i)+skip:], from[:n])
		from = from[n:]
	}
}

// The method "numbers" returns true if each block of the layout has eight bytes, and the given part
// of the message begins and ends at the edge of a block.
func (s *shape) numbers(bytes, at int) bool { return s.block == 8 && (bytes|at)%8 == 0 }

// The method "find" returns the index of the block that contains a byte of the message, and the
// offset of this byte in the block. The argument "at" of "find" is the offset of the byte in the
// message.
func (s *shape) find(at int) (i, skip int) {
	switch {
	case at == 0: // even without blocks
		return 0, 0
	case s.ends == nil:
		return at / s.block, at % s.block
	}
	i = sort.SearchInts(s.ends, at+1)
	return i, at - (s.ends[i] - s.length(i))
}

// The method "length" returns the size of block i in bytes.
func (s *shape) length(i int) int {
	switch {
	case s.ends == nil:
		return s.block
	case i == 0:
		return s.ends[0]
	}
	return s.ends[i] - s.ends[i-1]
}
