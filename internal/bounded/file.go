package bounded

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// ReadFile reads a file that another program may write. The file must be a regular file of at most
// bytesMax bytes. For a pipe or a device, ReadFile returns an error at once.
func ReadFile(name string, bytesMax int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have no writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, bytesMax+1)) // the file may grow during the read
	if err == nil && int64(len(b)) > bytesMax {
		err = fmt.Errorf("%s has more than %d bytes", name, bytesMax)
	}
	return b, err
}
