package setting

import (
	"testing"
	"time"
)

// A field of each type takes its notation, and Text writes what Assign reads.
func TestAssign(t *testing.T) {
	for _, c := range []struct {
		field       any
		value, text string // text "" for a value that is refused
	}{
		{new(string), "any text", "any text"},
		{new(time.Duration), "1500ms", "1.5s"},
		{new(time.Duration), "50", ""},
		{new(int), "8K", "8192"},
		{new(int), "3m", "3145728"},
		{new(int), "-1", "-1"},
		{new(int), "", ""},
		{new(int), "K", ""},
		{new(int), "1.5M", ""},
		{new(int64), "1024G", "1099511627776"},
		{new(int64), "9000000000G", ""},
		{new(int64), "-9000000000G", ""},
		{new(uint32), "4294967295", "4294967295"},
		{new(uint32), "4G", ""},
		{new(uint32), "-1", ""},
	} {
		before := Text(c.field)
		err := Assign(c.field, c.value)
		if c.text == "" {
			if c.text = before; err == nil {
				t.Errorf("%T takes %q", c.field, c.value)
			}
		} else if err != nil {
			t.Errorf("%T of %q: %v", c.field, c.value, err)
		}
		if got := Text(c.field); got != c.text {
			t.Errorf("%T of %q is %q, want %q", c.field, c.value, got, c.text)
		}
	}
}
