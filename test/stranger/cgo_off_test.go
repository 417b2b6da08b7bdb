//go:build !cgo

package stranger

// withCgo says that libfabric can be there.
const withCgo = false
