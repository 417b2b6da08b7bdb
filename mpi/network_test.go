package mpi

import (
	"errors"
	"slices"
	"testing"
)

// wants returns the wish of a rank, which does not tell its CPUs.
func wants(provider, memory, lack string) wish {
	return wish{Provider: provider, Memory: memory, Lack: lack}
}

// The ranks of one host use shared memory if all of them see the same memory, and no rank asks for
// another provider.
func TestAgreeOnNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		wishes []wish
		want   string
		err    error
	}{
		"all see the same": {slices.Repeat([]wish{wants("", "a", "")}, 3), "shm", nil},
		"one in a container": {
			[]wish{wants("", "a", ""), wants("", "a", ""), wants("", "b", "")}, "udp", nil,
		},
		"one without":           {[]wish{wants("", "a", ""), wants("", "", "")}, "udp", nil},
		"the first one without": {[]wish{wants("", "", ""), wants("", "a", "")}, "udp", nil},
		"none has":              {[]wish{wants("", "", ""), wants("", "", "")}, "udp", nil},
		"one with few files":    {[]wish{wants("", "a", ""), wants("", "a", "few")}, "udp", nil},
		"one names another":     {[]wish{wants("", "a", ""), wants("ofi/tcp", "a", "")}, "ofi/tcp", nil},
		"all name it":           {[]wish{wants("udp", "a", ""), wants("udp", "a", "")}, "udp", nil},
		"they do not agree": {
			[]wish{wants("udp", "a", ""), wants("", "a", ""), wants("shm", "a", "")}, "", ErrConfig,
		},
		"as many as share": {
			slices.Repeat([]wish{wants("", "a", "")}, sharingRanksMax), "shm", nil,
		},
		"more than that": {
			slices.Repeat([]wish{wants("", "a", "")}, sharingRanksMax+1), "udp", nil,
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
