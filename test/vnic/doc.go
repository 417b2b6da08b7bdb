// Package vnic tests btlvnic as its users have it: the built program, on hosts made from network
// namespaces, with the kernel's network on both sides.
package vnic
