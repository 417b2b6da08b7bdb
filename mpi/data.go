package mpi

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// bytesOf is the memory of a slice of values without pointers.
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

// sizeOf is the size of a value in bytes.
func sizeOf[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}

// shared says whether two pieces of memory have a byte in common.
func shared(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first, second := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return first < second+uintptr(len(b)) && second < first+uintptr(len(a))
}

// apart refuses memory that an operation reads, a, and memory that it writes, b, where they share
// bytes: ErrConfig. But a may be the same memory as inPlace.
func apart(a, b, inPlace []byte) error {
	if !shared(a, b) || len(a) == len(inPlace) && &a[0] == &inPlace[0] {
		return nil
	}
	return fmt.Errorf("%w: slices overlap", ErrConfig)
}

// composite has the verdicts on structs and arrays that were asked for: error or nil, by type.
var composite sync.Map

// checkType says whether values of a type can be sent: ErrType.
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

// examine looks into structs and arrays. Bools are none of it: a byte that is neither 0 nor 1 would
// make one that Go does not know.
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

// fieldBytes is how many bytes of a value are those of its numbers: what lies between fields of a
// struct, behind them, or in fields called _ has no value.
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
