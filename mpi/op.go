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

// Number is the constraint of Sum and Prod.
type Number interface {
	Integer | ~float32 | ~float64 | ~complex64 | ~complex128
}

// Ordered is the constraint of Min and Max.
type Ordered interface {
	Integer | ~float32 | ~float64
}

// Op combines the values of ranks in a reduction. An Op may be used any number of times.
type Op[T any] struct {
	fold     coll.Fold
	commutes bool
	code     opCode // opNone: unknown to other processes
}

// NewOp returns an operation that combines the value of lower ranks and the value of higher ranks
// by f. f must be associative. commutes means that f(a, b) equals f(b, a), so that values may be
// combined in any order. T may be any struct that can be sent, such as a value with its place for
// MINLOC. The goroutine that drives the engine calls f, so f must be short, and must not call this
// package. If f panics the operation ends with an OpError, which has the value and the stack of the
// panic. Ranks at which f did not panic get no error, and their results are undefined; the rank
// with the error can tell them by Revoke. If f ends its goroutine (by runtime.Goexit, as FailNow of
// a test does), the world of this rank ends: all present and later operations fail with ErrOp.
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

// known returns a commutative operation that all processes know by its code.
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

// Min takes the least value, or a NaN if there is one.
func Min[T Ordered]() Op[T] {
	return known(opMin, func(a, b T) T { return min(a, b) })
}

// Max takes the largest value, or a NaN if there is one.
func Max[T Ordered]() Op[T] {
	return known(opMax, func(a, b T) T { return max(a, b) })
}

// And combines values by bitwise AND.
func And[T Integer]() Op[T] {
	return known(opAnd, func(a, b T) T { return a & b })
}

// Or combines values by bitwise OR.
func Or[T Integer]() Op[T] {
	return known(opOr, func(a, b T) T { return a | b })
}

// Xor combines values by bitwise XOR.
func Xor[T Integer]() Op[T] {
	return known(opXor, func(a, b T) T { return a ^ b })
}

// Replace overwrites the old values with the new ones. It is for windows alone.
func Replace[T any]() Op[T] { return Op[T]{code: opReplace} }

// Keep does not change the old values. It is for the window operations that return the old values.
func Keep[T any]() Op[T] { return Op[T]{code: opKeep} }

// Local combines low with high value by value into high, without a message (MPI_Reduce_local).
// Errors: ErrType, ErrCount, and ErrConfig for an Op that NewOp has not made, or for slices that
// overlap and are not the same. A panic of the Op's function reaches the caller.
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

// Commutes reports whether the operation is commutative (MPI_Op_commutative).
func (op Op[T]) Commutes() bool { return op.commutes }

// valuesOf is the inverse of bytesOf, for memory with the alignment of the values.
func valuesOf[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/sizeOf[T]())
}
