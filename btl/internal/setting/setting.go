// Package setting reads and writes the values of settings as text. A setting is a pointer to a
// struct field, which is a string, a time.Duration, or an integer.
//
//	value                type
//	=====                ====
//	"50us", "1.5s"       time.Duration
//	"100", "8K", "1G"    int, int64, uint32, where the suffixes are powers of 1024
//
// Package setting has no state.
package setting

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// Assign parses a text and stores the parsed value in a setting's field. Assign returns an error if
// the text is not valid for the field's type, or if the number is too large for a field of the type
// uint32.
func Assign(field any, value string) error {
	switch f := field.(type) {
	case *string:
		*f = value
		return nil
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return errors.New("not a duration such as 50us, 100ms or 2s")
		}
		*f = d
		return nil
	}
	n, err := parseSize(value)
	if err != nil {
		return err
	}
	switch f := field.(type) {
	case *int:
		*f = int(n)
	case *int64:
		*f = n
	case *uint32:
		if n < 0 || n > math.MaxUint32 {
			return errors.New("out of range")
		}
		*f = uint32(n)
	}
	return nil
}

// parseSize parses a whole number with an optional suffix K, M or G for powers of 1024.
func parseSize(s string) (int64, error) {
	digits, shift := s, 0
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k', 'K':
			digits, shift = s[:n-1], 10
		case 'm', 'M':
			digits, shift = s[:n-1], 20
		case 'g', 'G':
			digits, shift = s[:n-1], 30
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64>>shift || n < math.MinInt64>>shift {
		return 0, errors.New("not a whole number, optionally with K, M or G")
	}
	return n << shift, nil
}

// Text returns the value of a field in the notation of Assign, or "" for a field of a type that
// Assign does not support.
func Text(field any) string {
	switch f := field.(type) {
	case *string:
		return *f
	case *time.Duration:
		return f.String()
	case *int:
		return strconv.Itoa(*f)
	case *int64:
		return strconv.FormatInt(*f, 10)
	case *uint32:
		return strconv.FormatUint(uint64(*f), 10)
	}
	return ""
}
