package numbers

// NonZero returns a source of random numbers that never yields zero, and draws its numbers from the
// source random.
func NonZero(random func() uint64) func() uint64 {
	return func() uint64 {
		for {
			if r := random(); r != 0 {
				return r
			}
		}
	}
}
