package mpi

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// bytesOf returns the memory of a slice of values. If the values contain pointers, bytesOf returns
// ErrType.
func bytesOf[T any](data []T) ([]byte, error) {
	if err := checkType[T](); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, nil
	}
	size := int(unsafe.Sizeof(data[0]))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*size), nil
}

func sizeOf[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}

// The function "shared" reports whether the memory of the slices a and b overlaps.
func shared(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first, second := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return first < second+uintptr(len(b)) && second < first+uintptr(len(a))
}

// The function "apart" returns ErrConfig if the memory a, which an operation reads, overlaps the
// memory b, which the operation writes. If a is exactly the slice inPlace, which the operation
// accepts as input despite the overlap, the function "apart" returns nil.
func apart(a, b, inPlace []byte) error {
	if !shared(a, b) || len(a) == len(inPlace) && &a[0] == &inPlace[0] {
		return nil
	}
	return fmt.Errorf("%w: slices overlap", ErrConfig)
}

// The variable "composite" caches the results of checkType for structs and arrays. The cached value
// for a type is an error or nil.
var composite sync.Map

func checkType[T any]() error {
	t := reflect.TypeFor[T]()
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Complex128 && k != reflect.Uintptr:
		return nil
	case k != reflect.Struct && k != reflect.Array:
		return fmt.Errorf("%w: %v", ErrType, t)
	}
	if v, ok := composite.Load(t); ok {
		err, _ := v.(error)
		return err
	}
	err := examine(t)
	if err == nil && t.Size() == 0 {
		err = fmt.Errorf("%w: %v has no bytes", ErrType, t)
	}
	composite.Store(t, err)
	return err
}

// The function "examine" returns ErrType if a struct or an array contains a type that cannot be
// sent. The type bool cannot be sent, because a received byte other than 0 and 1 would be an
// invalid Go bool.
func examine(t reflect.Type) error {
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Complex128 && k != reflect.Uintptr:
		return nil
	case k == reflect.Array:
		return examine(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if err := examine(t.Field(i).Type); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%w: it has a %v", ErrType, t)
}

// fieldBytes returns the number of bytes that the numbers in a value of type t occupy. fieldBytes
// counts neither the padding of structs nor the fields named _.
func fieldBytes(t reflect.Type) (bytes uintptr) {
	switch k := t.Kind(); {
	case k == reflect.Array:
		return uintptr(t.Len()) * fieldBytes(t.Elem())
	case k != reflect.Struct:
		return t.Size()
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Name != "_" {
			bytes += fieldBytes(f.Type)
		}
	}
	return bytes
}
