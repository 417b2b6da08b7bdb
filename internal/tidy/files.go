package tidy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Files reads all files below the directory "root" that git tracks or would add. Files omits
// symbolic links and deleted files.
func Files(root string) ([]File, error) {
	// Without the option safe.directory, git refuses a working copy that belongs to a different user,
	// which is common in a container.
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z",
		"--cached", "--others", "--exclude-standard", "--deduplicate")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("tidy: git ls-files in %s: %w", root, err)
	}
	var files []File
	for name := range bytes.SplitSeq(bytes.TrimRight(list, "\x00"), []byte{0}) {
		full := filepath.Join(root, filepath.FromSlash(string(name)))
		info, err := os.Lstat(full)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tidy: %w", err)
		}
		data, err := os.ReadFile(full)
		if err != nil {
			return nil, fmt.Errorf("tidy: %w", err)
		}
		files = append(files, File{Path: string(name), Data: data})
	}
	return files, nil
}
