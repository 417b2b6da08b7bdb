//go:build linux

// Command recovery measures gobtl, TCP and libfabric's reliable datagrams with packet loss, at a
// bottleneck, and with many senders, between network namespaces. The command needs root.
package main
