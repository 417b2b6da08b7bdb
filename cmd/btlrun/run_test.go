//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBare: without arguments btlrun lists its usage on standard error, and a wrong flag names the
// help.
func TestBare(t *testing.T) {
	for _, tc := range []struct {
		args []string
		says []string
	}{
		{nil, []string{"Usage: btlrun", "--np"}},
		{[]string{"--bogus", "true"}, []string{"unknown flag --bogus", "(see btlrun --help)"}},
	} {
		file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		if err != nil {
			t.Fatal(err)
		}
		status := run(tc.args, os.Stdin, nil, file)
		text, err := os.ReadFile(file.Name())
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.says {
			if status != exitUsage || !strings.Contains(string(text), want) {
				t.Errorf("btlrun %q: status %d, want %d and %q:\n%s", tc.args, status, exitUsage, want, text)
			}
		}
	}
}

// TestRemoteShell: by default ssh notices that a host has vanished, and ends.
func TestRemoteShell(t *testing.T) {
	var c cli
	parser, err := newParser(&c, io.Discard, io.Discard, func(int) {})
	if err == nil {
		_, err = parser.Parse([]string{"true"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"BatchMode=yes", "ServerAliveInterval=", "ServerAliveCountMax="} {
		if !strings.Contains(c.Rsh, " -o "+option) {
			t.Errorf("%q has no option %s", c.Rsh, option)
		}
	}
}
