//go:build linux && cgo

package ofi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"gobtl/fabric"
)

func sockIn(ip string, port uint16) []byte {
	b := make([]byte, sockInBytes)
	binary.NativeEndian.PutUint16(b, syscall.AF_INET)
	binary.BigEndian.PutUint16(b[2:], port)
	copy(b[4:], netip.MustParseAddr(ip).AsSlice())
	return b
}

func sockIn6(ip string, port uint16, flow, scope uint32) []byte {
	b := make([]byte, sockIn6Bytes)
	binary.NativeEndian.PutUint16(b, syscall.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], port)
	binary.BigEndian.PutUint32(b[4:], flow)
	copy(b[8:], netip.MustParseAddr(ip).AsSlice())
	binary.NativeEndian.PutUint32(b[24:], scope)
	return b
}

var (
	rulesIn     = nameRules{form: formSockIn, bytes: sockInBytes}
	rulesIn6    = nameRules{form: formSockIn6, bytes: sockIn6Bytes, scope: 7}
	rulesOpaque = nameRules{form: formOpaque, bytes: 32}
	rulesString = nameRules{form: formString}
)

func TestNameRules(t *testing.T) {
	in := sockIn("192.0.2.1", 99)
	padded := bytes.Clone(in)
	copy(padded[8:], "garbage!")
	for _, tt := range []struct {
		what  string
		rules nameRules
		name  []byte
		canon []byte // nil: refused
	}{
		{"IPv4", rulesIn, in, in},
		{"IPv4 with padding", rulesIn, padded, in},
		{"port 0", rulesIn, sockIn("192.0.2.1", 0), nil},
		{"nobody", rulesIn, sockIn("0.0.0.0", 9), nil},
		{"broadcast", rulesIn, sockIn("255.255.255.255", 9), nil},
		{"multicast", rulesIn, sockIn("224.0.0.1", 9), nil},
		{"empty", rulesIn, nil, nil},
		{"short", rulesIn, in[:15], nil},
		{"long", rulesIn, append(bytes.Clone(in), 0), nil},
		{"other family", rulesIn, append([]byte{0, 0}, in[2:]...), nil},
		{"IPv6 to an IPv4 domain", rulesIn, sockIn6("2001:db8::1", 9, 0, 0), nil},
		{"IPv6", rulesIn6, sockIn6("2001:db8::1", 9, 5, 3), sockIn6("2001:db8::1", 9, 0, 0)},
		{"link-local", rulesIn6, sockIn6("fe80::1", 9, 0, 3), sockIn6("fe80::1", 9, 0, 7)},
		{"IPv6 multicast", rulesIn6, sockIn6("ff02::1", 9, 0, 0), nil},
		{"mapped multicast", rulesIn6, sockIn6("::ffff:224.0.0.1", 9, 0, 0), nil},
		{"IPv6 nobody", rulesIn6, sockIn6("::", 9, 0, 0), nil},
		{"opaque", rulesOpaque, make([]byte, 32), make([]byte, 32)},
		{"opaque short", rulesOpaque, make([]byte, 31), nil},
		{"string", rulesString, []byte("fi_x://1\x00"), []byte("fi_x://1\x00")},
		{"string without end", rulesString, []byte("fi_x://1"), nil},
		{"string too long", rulesString, make([]byte, fabric.MaxNameBytes+1), nil},
	} {
		got, err := tt.rules.check(tt.name)
		switch {
		case tt.canon == nil && !errors.Is(err, fabric.ErrBadName):
			t.Errorf("%s: check = %x, %v; want ErrBadName", tt.what, got, err)
		case tt.canon != nil && (err != nil || got != string(tt.canon)):
			t.Errorf("%s: check = %x, %v; want %x", tt.what, got, err, tt.canon)
		}
	}
}

// FuzzName checks that any bytes are refused as ErrBadName, or have one canonical form of the right
// length.
func FuzzName(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(sockIn("127.0.0.1", 1))
	f.Add(sockIn6("fe80::1", 1, 2, 3))
	f.Add([]byte("text\x00"))
	f.Fuzz(func(t *testing.T, name []byte) {
		for _, r := range []nameRules{rulesIn, rulesIn6, rulesOpaque, rulesString, {}} {
			canon, err := r.check(name)
			if err != nil {
				if !errors.Is(err, fabric.ErrBadName) {
					t.Fatalf("%+v: %v is not ErrBadName", r, err)
				}
				continue
			}
			again, err := r.check([]byte(canon))
			if err != nil || again != canon || len(canon) != len(name) {
				t.Fatalf("%+v: %x has the canonical form %x, and that has %x (%v)",
					r, name, canon, again, err)
			}
		}
	})
}
