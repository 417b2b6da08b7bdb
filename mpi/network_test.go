package mpi

import (
	"errors"
	"slices"
	"testing"
)

// The ranks of one host use shared memory if all of them see the same memory, and no rank asks for
// another provider.
func TestAgreeOnNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		wishes []wish
		want   string
		err    error
	}{
		"all see the same":      {[]wish{{"", "a", ""}, {"", "a", ""}, {"", "a", ""}}, "shm", nil},
		"one in a container":    {[]wish{{"", "a", ""}, {"", "a", ""}, {"", "b", ""}}, "udp", nil},
		"one without":           {[]wish{{"", "a", ""}, {"", "", ""}}, "udp", nil},
		"the first one without": {[]wish{{"", "", ""}, {"", "a", ""}}, "udp", nil},
		"none has":              {[]wish{{"", "", ""}, {"", "", ""}}, "udp", nil},
		"one with few files":    {[]wish{{"", "a", ""}, {"", "a", "few"}}, "udp", nil},
		"one names another":     {[]wish{{"", "a", ""}, {"ofi/tcp", "a", ""}}, "ofi/tcp", nil},
		"all name it":           {[]wish{{"udp", "a", ""}, {"udp", "a", ""}}, "udp", nil},
		"they do not agree": {
			[]wish{{"udp", "a", ""}, {"", "a", ""}, {"shm", "a", ""}}, "", ErrConfig,
		},
		"as many as share": {
			slices.Repeat([]wish{{"", "a", ""}}, sharingRanksMax), "shm", nil,
		},
		"more than that": {
			slices.Repeat([]wish{{"", "a", ""}}, sharingRanksMax+1), "udp", nil,
		},
	} {
		got, err := agreeOnNetwork(test.wishes)
		if got.Provider != test.want || !errors.Is(err, test.err) || (got.Reason == "") != (err != nil) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestLocalNode: ranks of one host meet at the loopback address over every provider of UDP sockets.
func TestLocalNode(t *testing.T) {
	for provider, want := range map[string]string{
		"udp": "127.0.0.1", "udp;nogso": "127.0.0.1", "net": "127.0.0.1", "shm": "", "ofi/tcp": "",
	} {
		if got := localNode(provider); got != want {
			t.Errorf("%s: node %q, want %q", provider, got, want)
		}
	}
}
