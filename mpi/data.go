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
