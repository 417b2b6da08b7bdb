package report

import (
	"math"
	"slices"
	"strconv"
)

// Median returns the median of the values, which for an even number of values is the mean of the
// two middle values. If there are no values, Median returns 0. Median does not change the slice.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Decimals rounds x to n decimal places.
func Decimals(x float64, n int) float64 {
	unit := math.Pow10(n)
	return math.Round(x*unit) / unit
}

// Significant rounds x to four significant digits.
func Significant(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// Short formats a number for an axis or a bar of a plot. The result of Short has two significant
// digits, or all digits of the integer part if there are more than two. For a number in thousands,
// the result of Short ends in k, and for a number in millions, the result ends in M.
func Short(x float64) string {
	for _, unit := range []struct {
		from, size float64
		name       string
	}{{1e6, 1e6, "M"}, {1e3, 1e3, "k"}} {
		if x >= unit.from {
			return short(x/unit.size) + unit.name
		}
	}
	return short(x)
}

func short(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

// InOrder calls the function "key" for each element of a list, and returns the results without
// duplicates, in the order of their first occurrence.
func InOrder[T any, K comparable](list []T, key func(*T) K) []K {
	var keys []K
	for i := range list {
		if k := key(&list[i]); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
