package stream

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"gobtl/internal/bounded"
)

// FileName returns the name of the file for region i.
func FileName(name string, i int) string { return fmt.Sprintf("%s.%d", name, i) }

// Load reads each region of the ring from its own file, whose name consists of the argument "name",
// a dot and the index of the region. Each file must have exactly the size of a region.
func (r *Ring) Load(name string) error {
	for i := range r.geo.Regions {
		if err := r.loadRegion(FileName(name, i), i); err != nil {
			return err
		}
	}
	return nil
}

func (r *Ring) loadRegion(file string, i int) error {
	f, st, err := bounded.OpenRegular(file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer f.Close()
	if st.Size() != int64(r.geo.RegionBytes()) {
		return fmt.Errorf("%w: %s has %d bytes, a region %d", ErrFile, file, st.Size(),
			r.geo.RegionBytes())
	}
	if _, err := io.ReadFull(f, r.Region(i)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFile, file, err)
	}
	return nil
}

// Save writes the regions to the files that Load reads. Each file is written completely or not at
// all. If a file cannot be written, Save continues with the remaining files. The error of Save
// contains the first three failures.
func (r *Ring) Save(name string) error {
	const told = 3
	var errs []error
	failed := 0
	for i := range r.geo.Regions {
		if err := WriteFileWhole(FileName(name, i), r.Region(i)); err != nil {
			if failed++; failed <= told {
				errs = append(errs, err)
			}
		}
	}
	if failed > told {
		errs = append(errs, fmt.Errorf("%w: %d others", ErrFile, failed-told))
	}
	return errors.Join(errs...)
}

// Fill sets byte i of region k to (i + k*RegionBytes) modulo 256. Fill is for programs without
// their own data.
func (r *Ring) Fill() {
	at := 0
	for _, block := range r.blocks {
		for i := range block {
			block[i] = byte(at + i)
		}
		at += len(block)
	}
}

// Display writes the first and the last bytes of each region to w in hexadecimal.
func (r *Ring) Display(w io.Writer, first, last int) error {
	const widest, beside, each = 72, len("Memory region 0000:  ..."), len(" 00")
	frame := strings.Repeat("#", min(widest, beside+each*(first+last)))
	_, err := fmt.Fprintf(w, "%s\nMemory contents:\n", frame)
	for i := range r.geo.Regions {
		mem := r.Region(i)
		line := spaced(mem)
		if first+last < len(mem) {
			line = spaced(mem[:first]) + " ... " + spaced(mem[len(mem)-last:])
		}
		_, e := fmt.Fprintf(w, "Memory region %04d: %s\n", i, strings.TrimSpace(line))
		err = errors.Join(err, e)
	}
	_, e := fmt.Fprintln(w, frame)
	return errors.Join(err, e)
}

func spaced(b []byte) string {
	var s strings.Builder
	for i := range b {
		if i > 0 {
			s.WriteByte(' ')
		}
		s.WriteString(hex.EncodeToString(b[i : i+1]))
	}
	return s.String()
}
