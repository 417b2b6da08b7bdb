package mpi

import (
	"fmt"
	"unsafe"

	"gobtl/mpi/coll"
)

// Integer is any of Go's integers, Number any of its numbers.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Number is what Sum and Prod combine.
type Number interface {
	Integer | ~float32 | ~float64 | ~complex64 | ~complex128
}

// Ordered is what Min and Max compare.
type Ordered interface {
	Integer | ~float32 | ~float64
}

// Op combines the values of ranks in a reduction. Make one once, and use it often.
type Op[T any] struct {
	fold     coll.Fold
	commutes bool
	code     opCode // opNone: other processes do not know it
}

// NewOp returns an operation: f of the value of lower ranks and that of higher ones. It must be
// associative; commutes says that f(a, b) is f(b, a), too, so that the values may be combined in
// any order. T may be any struct that can be sent: of a value and its place, as of MINLOC. f is
// called by whoever drives: it must be short, and call nothing of this package. Where it
// panics the operation ends with an OpError, which tells the panic and where it was; ranks at which
// it was not called, or not with such values, have no error and values that are worth nothing: who
// has it tells them by Revoke. One that ends its goroutine (runtime.Goexit, as a test's FailNow)
// ends the world here: ErrOp for all that goes on and begins.
func NewOp[T any](f func(low, high T) T, commutes bool) Op[T] {
	return Op[T]{commutes: commutes, fold: func(acc, x []byte, xFirst bool) {
		a, b := valuesOf[T](acc), valuesOf[T](x)
		for i := range a {
			if xFirst {
				a[i] = f(b[i], a[i])
			} else {
				a[i] = f(a[i], b[i])
			}
		}
	}}
}

// known is an operation that commutes and that all processes know.
func known[T any](code opCode, f func(a, b T) T) Op[T] {
	op := NewOp(f, true)
	op.code = code
	return op
}

// Sum adds.
func Sum[T Number]() Op[T] {
	return Op[T]{commutes: true, code: opSum, fold: func(acc, x []byte, _ bool) {
		a, b := valuesOf[T](acc), valuesOf[T](x)
		b = b[:len(a)]
		for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
			a[0] += b[0]
			a[1] += b[1]
			a[2] += b[2]
			a[3] += b[3]
		}
		for i := range a {
			a[i] += b[i]
		}
	}}
}

// Prod multiplies.
func Prod[T Number]() Op[T] {
	return known(opProd, func(a, b T) T { return a * b })
}

// Min takes the least: a NaN if there is one.
func Min[T Ordered]() Op[T] {
	return known(opMin, func(a, b T) T { return min(a, b) })
}

// Max takes the largest: a NaN if there is one.
func Max[T Ordered]() Op[T] {
	return known(opMax, func(a, b T) T { return max(a, b) })
}

// And takes the bits that all have.
func And[T Integer]() Op[T] {
	return known(opAnd, func(a, b T) T { return a & b })
}

// Or takes the bits that any has.
func Or[T Integer]() Op[T] {
	return known(opOr, func(a, b T) T { return a | b })
}

// Xor takes the bits that an odd number of ranks has.
func Xor[T Integer]() Op[T] {
	return known(opXor, func(a, b T) T { return a ^ b })
}

// Replace writes the new values over the old ones: for windows alone.
func Replace[T any]() Op[T] { return Op[T]{code: opReplace} }

// Keep leaves the old values as they are: for the operations of windows that return them.
func Keep[T any]() Op[T] { return Op[T]{code: opKeep} }

// Local combines low with high here, value by value, into high: no message (MPI_Reduce_local).
// Errors: ErrType, ErrCount, and ErrConfig for an Op that NewOp has not made, or for slices that
// overlap and are not the same. A panic is the caller's.
func (op Op[T]) Local(low, high []T) error {
	a, err := bytesOf(high)
	if err != nil {
		return err
	}
	b, err := bytesOf(low)
	switch {
	case err != nil:
		return err
	case len(low) != len(high):
		return fmt.Errorf("%w: %d values and %d", ErrCount, len(low), len(high))
	case op.fold == nil:
		return fmt.Errorf("%w: an Op that NewOp has not made", ErrConfig)
	}
	if err := apart(b, a, a); err != nil {
		return err
	}
	op.fold(a, b, true)
	return nil
}

// Commutes says whether the values may be combined in any order (MPI_Op_commutative).
func (op Op[T]) Commutes() bool { return op.commutes }

// valuesOf is the other way of bytesOf, for memory that lies as the values must.
func valuesOf[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/sizeOf[T]())
}
