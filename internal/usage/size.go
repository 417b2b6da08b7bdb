package usage

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// SizeBytesMax is the largest Size, which is 4 GiB - 1, the length of the longest message of the
// transport.
const SizeBytesMax = min(1<<32-1, math.MaxInt)

// Size is a number of bytes on a command line, 0 to SizeBytesMax.
type Size int

// UnmarshalText parses the format of ParseSize.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := ParseSize(string(text))
	*s = Size(n)
	return err
}

// String formats a size in the format of ParseSize.
func (s Size) String() string { return SizeText(int(s)) }

// ParseSize parses a number of bytes with an optional binary suffix, such as "8", "1K" or "4MiB".
func ParseSize(text string) (int, error) {
	digits := strings.TrimRight(text, "BKMGikmgb")
	suffix := strings.ToUpper(text[len(digits):])
	shift, ok := map[string]int{
		"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20,
		"G": 30, "GB": 30, "GIB": 30,
	}[suffix]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is no size: write bytes as 8, 1K, 4M or 1G", text)
	}
	if n > SizeBytesMax>>shift {
		return 0, fmt.Errorf("size %s is beyond the limit of %d bytes", text, SizeBytesMax)
	}
	return int(n << shift), nil
}

// SizeText formats a size in a form that ParseSize accepts. The unit in the result is the largest
// unit (such as K or M) of which the size is a whole multiple.
func SizeText(sizeBytes int) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "G"}, {20, "M"}, {10, "K"}} {
		if sizeBytes >= 1<<unit.shift && sizeBytes%(1<<unit.shift) == 0 {
			return strconv.Itoa(sizeBytes>>unit.shift) + unit.name
		}
	}
	return strconv.Itoa(sizeBytes)
}
