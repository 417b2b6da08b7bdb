//go:build linux && cgo

package ofi

import (
	"syscall"

	"gobtl/fabric"
)

// codeBase (GOFI_CODE_BASE in shim.h) is the lowest error code that the shim (the C part of the
// package) defines. Error codes below codeBase are error codes of libfabric.
const codeBase = 0x10000

// The variable "refusals" describes the error codes that the shim (the C part of the package)
// defines, in the order of shim.h. Each entry of "refusals" has the name of the call that failed,
// the errno, and the text of the error.
var refusals = [...]struct {
	op    string
	errno syscall.Errno
	text  string
}{
	{"post", syscall.EINVAL, "buffer outside the arena"},
	{"post", syscall.EBUSY, "buffer still posted for another use"},
	{"post", syscall.EINVAL, "unknown or removed peer address"},
	{"post", syscall.EMSGSIZE, "datagram larger than the buffer or the MTU"},
	{"post", syscall.EINVAL, "unknown region, or bytes outside it"},
	{"poll", syscall.EIO, "a completion names no posted buffer"},
	{"fi_av_insert", syscall.EADDRNOTAVAIL, "the provider cannot reach that address"},
	{"fi_getname", syscall.ENAMETOOLONG, "the endpoint's name is longer than 64 bytes"},
}

// The variable "calls" lists the names of libfabric's data-path calls, in the order of the
// constants GOFI_CALL_* in shim.h.
var calls = [...]string{
	"post", "fi_inject", "fi_send", "fi_sendv", "fi_recv", "fi_cq_read", "fi_cq_readerr", "fi_trywait",
	"fi_sendmsg", "recvmsg",
}

// newError makes a *fabric.Error from an error code. The argument "text" of newError is a function
// that returns the error message for an error code of libfabric.
func newError(provider, op string, code int, text func(code int) string) *fabric.Error {
	if i := code - codeBase; i >= 0 && i < len(refusals) {
		r := refusals[i]
		return &fabric.Error{Provider: provider, Op: r.op, Errno: int(r.errno), Text: r.text}
	}
	return &fabric.Error{Provider: provider, Op: op, Errno: code, Text: text(code)}
}

// The constants in this block describe the bit fields in the result of a batch call (gofi_result in
// internal.h).
const (
	codeShift = 32
	codeMask  = 1<<24 - 1
	callShift = 56
	callMask  = 1<<7 - 1
)

func resultCount(r int64) int { return int(uint32(r)) }
func resultCode(r int64) int  { return int(r >> codeShift & codeMask) }

func resultCall(r int64) string {
	if i := int(r >> callShift & callMask); i < len(calls) {
		return calls[i]
	}
	return "post"
}
