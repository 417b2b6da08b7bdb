package bounded

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// OpenRegular opens a file for reading. An untrusted program may have created the file. The file
// must be a regular file. For a pipe, a device or a directory, OpenRegular returns an error without
// blocking.
func OpenRegular(name string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have no writer
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, st, nil
}

// ReadFile reads the whole content of a file. An untrusted program may have created the file. The
// file must be a regular file of at most bytesMax bytes. If the file is larger than bytesMax, or is
// not a regular file, ReadFile returns an error without blocking.
func ReadFile(name string, bytesMax int64) ([]byte, error) {
	f, _, err := OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, bytesMax+1)) // the file may grow during the read
	if err == nil && int64(len(b)) > bytesMax {
		err = fmt.Errorf("%s has more than %d bytes", name, bytesMax)
	}
	return b, err
}
