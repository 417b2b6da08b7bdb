package pmi

import (
	"errors"
	"fmt"
	"strings"
)

// MappingKey is the key under which a launcher publishes the nodes of the ranks.
const MappingKey = "PMI_process_mapping"

// ErrMapping means that a text is not a valid mapping from ranks to nodes.
var ErrMapping = errors.New("pmi: malformed process mapping")

// ParseMapping returns the number of the node of each rank, for a job of "size" ranks. The argument
// "text" is the value that the launcher has published under MappingKey. ParseMapping numbers the
// nodes in the order of the lowest rank on each node.
//
//	(vector,(FIRST,NODES,RANKS),...)    --> RANKS ranks on each of NODES nodes from node FIRST on
//
// Each triple in the list is a block of consecutive ranks, in ascending order. If a job has more
// ranks than all blocks of the mapping together, the blocks are applied again from the beginning.
func ParseMapping(text string, size int) ([]int, error) {
	bad := func(why string) error { return fmt.Errorf("%w: %s: %.80q", ErrMapping, why, text) }
	if size < 1 || size > RanksMax {
		return nil, bad(fmt.Sprintf("for %d ranks", size))
	}
	rest, ok := strings.CutPrefix(text, "(vector")
	rest, closed := strings.CutSuffix(rest, ")")
	if !ok || !closed {
		return nil, bad("no vector")
	}
	var blocks [][3]int
	for rest != "" {
		var b [3]int
		block, after, ended := strings.Cut(rest, ")")
		if n, err := fmt.Sscanf(block, ",(%d,%d,%d", &b[0], &b[1], &b[2]); err != nil || n != 3 ||
			!ended || block != fmt.Sprintf(",(%d,%d,%d", b[0], b[1], b[2]) {
			return nil, bad("no block")
		}
		if b[0] < 0 || b[0] > RanksMax || b[1] < 1 || b[1] > RanksMax || b[2] < 1 || b[2] > RanksMax {
			return nil, bad("number out of range")
		}
		blocks = append(blocks, b)
		rest = after
	}
	if len(blocks) == 0 {
		return nil, bad("empty")
	}
	return spread(blocks, size), nil
}

// The function "spread" assigns "size" ranks to the nodes that the blocks of a mapping describe.
// The three numbers of a block are the first node, the number of nodes, and the number of ranks on
// each node.
func spread(blocks [][3]int, size int) []int {
	nodes := make([]int, 0, size)
	number := map[int]int{} // numbers of the nodes seen so far
	for {
		for _, b := range blocks {
			for node := b[0]; node < b[0]+b[1]; node++ {
				for range b[2] {
					n, known := number[node]
					if !known {
						n = len(number)
						number[node] = n
					}
					nodes = append(nodes, n)
					if len(nodes) == size {
						return nodes
					}
				}
			}
		}
	}
}

// FormatMapping returns the mapping as text. The argument "nodes" has the number of the node of
// each rank.
func FormatMapping(nodes []int) string {
	var blocks [][3]int
	for i := 0; i < len(nodes); {
		end := i
		for end < len(nodes) && nodes[end] == nodes[i] {
			end++
		}
		last := len(blocks) - 1
		if last >= 0 && blocks[last][2] == end-i && blocks[last][0]+blocks[last][1] == nodes[i] {
			blocks[last][1]++
		} else {
			blocks = append(blocks, [3]int{nodes[i], 1, end - i})
		}
		i = end
	}
	var text strings.Builder
	text.WriteString("(vector")
	for _, b := range blocks {
		fmt.Fprintf(&text, ",(%d,%d,%d)", b[0], b[1], b[2])
	}
	return text.String() + ")"
}
