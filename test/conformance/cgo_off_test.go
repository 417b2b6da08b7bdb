//go:build !cgo

package conformance

// withCgo says that libfabric can be there.
const withCgo = false
