// Package vnic tests the built program btlvnic between network namespaces, with the kernel's
// network stack on both sides.
package vnic
