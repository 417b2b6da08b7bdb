package numbers

// NonZero returns a source of random numbers that draws from the function "random" and skips zeros.
func NonZero(random func() uint64) func() uint64 {
	return func() uint64 {
		for {
			if r := random(); r != 0 {
				return r
			}
		}
	}
}
