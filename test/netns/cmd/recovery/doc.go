//go:build linux

// Command recovery measures gobtl, TCP and libfabric's reliable datagrams under loss, at a
// bottleneck and in an incast, between network namespaces. It needs root.
package main
