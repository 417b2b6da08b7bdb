//go:build linux && cgo

package ofi

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"gobtl/fabric"
)

const lookupPatience = 5 * time.Second

// The function "numeric" converts a node, such as a host name, to numeric addresses, which are then
// passed to libfabric. This package resolves host names itself, because libfabric would use only
// the first address, whatever its IP version. If the node is empty or a numeric address, the
// function "numeric" returns only the unchanged node.
func numeric(node string) ([]string, error) {
	if _, err := netip.ParseAddr(node); err == nil || node == "" {
		return []string{node}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupPatience)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", node)
	if err != nil {
		return nil, fmt.Errorf("%w: node %q: %w", fabric.ErrNoProvider, node, err)
	}
	nodes := make([]string, 0, len(ips))
	for _, ip := range ips {
		nodes = append(nodes, ip.Unmap().String())
	}
	return nodes, nil
}
