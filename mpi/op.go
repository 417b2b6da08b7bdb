package mpi

import (
	"fmt"
	"unsafe"

	"gobtl/mpi/coll"
)

// Integer is the constraint of all integer types of Go.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Number is the constraint of Sum and Prod, which allows all numeric types of Go.
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
	code     opCode // opNone: other processes do not know the operation
}

// NewOp returns an operation that combines a value of lower ranks and a value of higher ranks by
// the function f. The function f must be associative. If the argument "commutes" of NewOp is true,
// f(a, b) must equal f(b, a), and the values may be combined in any order. The type T of the values
// may be any struct that can be sent, such as a value with its index for MINLOC. The function f is
// called on the goroutine that polls the transport. The function f must return quickly, and must
// not call package mpi.
//
// If f panics, the operation ends with an OpError, which holds the value and the stack of the
// panic. If f does not panic at this rank but panics at a different rank, the operation returns no
// error at this rank, but the result at this rank is undefined. A rank at which f has panicked can
// inform the other ranks by Revoke. If f ends its goroutine by runtime.Goexit, as FailNow of a test
// does, all present and later operations of this rank's World fail with ErrOp.
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

// The function "known" returns a commutative operation with a code that identifies the operation in
// all processes.
func known[T any](code opCode, f func(a, b T) T) Op[T] {
	op := NewOp(f, true)
	op.code = code
	return op
}

// Sum returns the operation that adds values.
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

// Prod returns the operation that multiplies values.
func Prod[T Number]() Op[T] {
	return known(opProd, func(a, b T) T { return a * b })
}

// Min returns the operation that takes the smallest value. If one of the combined values is a NaN,
// the result is a NaN.
func Min[T Ordered]() Op[T] {
	return known(opMin, func(a, b T) T { return min(a, b) })
}

// Max returns the operation that takes the largest value. If one of the combined values is a NaN,
// the result is a NaN.
func Max[T Ordered]() Op[T] {
	return known(opMax, func(a, b T) T { return max(a, b) })
}

// And returns the operation that combines values by bitwise AND.
func And[T Integer]() Op[T] {
	return known(opAnd, func(a, b T) T { return a & b })
}

// Or returns the operation that combines values by bitwise OR.
func Or[T Integer]() Op[T] {
	return known(opOr, func(a, b T) T { return a | b })
}

// Xor returns the operation that combines values by bitwise XOR.
func Xor[T Integer]() Op[T] {
	return known(opXor, func(a, b T) T { return a ^ b })
}

// Replace returns the operation that overwrites the old values of a window with the new values.
// Only the operations of windows accept Replace.
func Replace[T any]() Op[T] { return Op[T]{code: opReplace} }

// Keep returns the operation that does not change the old values of a window. Only those window
// operations that return old values accept Keep.
func Keep[T any]() Op[T] { return Op[T]{code: opKeep} }

// Local combines each value of the slice "low" with the value of the slice "high" at the same
// index, and stores the result in "high" (MPI_Reduce_local). Local sends no message. The errors of
// Local are ErrType and ErrCount. Local returns ErrConfig if the Op was not made by a function of
// package mpi, or if the slices overlap without being identical. If the function of the Op panics,
// Local does not recover the panic.
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

// valuesOf returns the memory b as a slice of values of type T, and is the inverse of bytesOf. The
// memory b must be aligned for values of type T.
func valuesOf[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/sizeOf[T]())
}
