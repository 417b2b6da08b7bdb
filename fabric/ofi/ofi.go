//go:build linux && cgo

package ofi

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"gobtl/fabric"
)

// fi_getinfo returns errNoData if no entry matches the hints, and errNoSys if the requested API
// version is newer than the installed libfabric.
const (
	errNoData = int(syscall.ENODATA)
	errNoSys  = int(syscall.ENOSYS)
)

// An "entry" is one result of fi_getinfo. An entry is valid until its list, which is the result of
// one fi_getinfo, is freed.
type entry struct {
	fi     *C.struct_fi_info
	info   fabric.Info
	limits limits
	form   nameForm
	src    []byte // this host's address from libfabric, without port
}

// list is the result of one fi_getinfo.
type list struct {
	head    *C.struct_fi_info
	entries []entry
}

func (l *list) free() { C.gofi_freeinfo(l.head) }

// The type "request" holds the criteria by which a call of fi_getinfo selects entries.
type request struct {
	hints   fabric.Hints
	variant variant
	fabric  string // its name, empty for any
	source  bool   // with FI_SOURCE
	rdm     bool   // reliable endpoints, else datagram endpoints
}

// query calls fi_getinfo. If no entry matches, query returns an empty list and no error.
func query(r request) (*list, error) {
	node := r.hints.Node
	if r.rdm && strings.EqualFold(r.variant.prov, shmProvider) {
		node = "" // all its addresses are local, and the node would count as an endpoint's name
	}
	var q C.struct_gofi_query
	for _, s := range []struct {
		to   **C.char
		text string
	}{
		{&q.prov, r.variant.prov},
		{&q.fabric, r.fabric},
		{&q.domain, r.hints.Domain},
		{&q.node, node},
	} {
		if strings.IndexByte(s.text, 0) >= 0 {
			return &list{}, nil // no name has a zero byte, and C would see only a part
		}
		if s.text != "" {
			*s.to = C.CString(s.text)
			defer C.free(unsafe.Pointer(*s.to))
		}
	}
	if r.source {
		q.source = 1
	}
	if r.rdm {
		q.rdm = 1
	}
	l := &list{}
	var code int
	guard(func() { code = int(C.gofi_getinfo(&q, &l.head)) })
	switch code {
	case 0:
	case errNoData:
		return l, nil
	case errNoSys:
		v := uint32(C.gofi_version())
		return l, fmt.Errorf("%w: libfabric %s is too old, this program needs 1.9 or newer",
			fabric.ErrUnavailable, apiVersion(v))
	default:
		return l, newError(family, "fi_getinfo", code, strerror)
	}
	for fi := l.head; fi != nil; fi = C.gofi_next(fi) {
		if e, ok := newEntry(fi, r); ok {
			l.entries = append(l.entries, e)
		}
	}
	l.dropNeedless(r.variant)
	return l, nil
}

// dropNeedless removes the entries of layered providers whose base provider has an entry of its
// own, unless the caller requests the layered provider by name.
func (l *list) dropNeedless(v variant) {
	bare := make(map[string]bool)
	for _, e := range l.entries {
		bare[e.info.Provider] = true
	}
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool {
		base, _, layered := strings.Cut(e.info.Provider, layerMark)
		return layered && bare[base] && !strings.EqualFold(v.prov, providerOf(e.info.Provider))
	})
}

// newEntry converts one result of fi_getinfo to an entry. The second result of newEntry is true if
// the entry matches the request and can be used, and otherwise false.
func newEntry(fi *C.struct_fi_info, r request) (entry, bool) {
	var raw C.struct_gofi_info
	C.gofi_describe(fi, &raw)
	h, prov := r.hints, C.GoString(raw.prov)
	if prov == "" || !r.variant.is(prov, r.rdm) {
		return entry{}, false
	}
	if r.rdm && raw.rdm == 0 || !r.rdm && (raw.dgram == 0 || strings.Contains(prov, layerMark)) {
		return entry{}, false
	}
	prov = strings.ToLower(prov) // "UDP" before libfabric 1.12
	if !fit(prov) {
		return entry{}, false
	}
	if prov == shmProvider && r.variant.prov == "" && h.Node != "" {
		return entry{}, false // see query
	}
	domain := C.GoString(raw.domain)
	if h.Domain != "" && h.Domain != domain { // the udp provider ignores this hint
		return entry{}, false
	}
	e := entry{
		fi:   fi,
		form: formOf(C.gofi_addr_kind(fi), int(raw.src_len)),
		src:  C.GoBytes(unsafe.Pointer(&raw.src[0]), C.int(raw.src_len)),
		limits: limits{
			maxMsgBytes: uint64(raw.max_msg_size),
			prefixBytes: uint64(raw.prefix_size),
			injectBytes: uint64(raw.inject_size),
			txPrefix:    raw.tx_prefix != 0,
			rxPrefix:    raw.rx_prefix != 0,
			txDepth:     uint64(raw.tx_size),
			rxDepth:     uint64(raw.rx_size),
			iovLimit:    uint64(raw.iov_limit),
			reliable:    r.rdm,
		}.tamed(prov, uint32(raw.prov_version)>>16),
	}
	if prov == udpProvider {
		e.limits = e.limits.onDevice(deviceMTU(domain), e.form)
	}
	if h.Node != "" && !e.isAt(h.Node) {
		return entry{}, false
	}
	e.info = fabric.Info{
		Provider: family + "/" + prov + r.variant.option(),
		Version: fmt.Sprintf("libfabric %s, provider %s",
			apiVersion(uint32(C.gofi_version())), apiVersion(uint32(raw.prov_version))),
		Fabric:        C.GoString(raw.fabric),
		Domain:        domain,
		Node:          h.Node,
		Src:           e.form.printable(e.src),
		AddrFormat:    attrText(fi, C.GOFI_ATTR_ADDR_FORMAT),
		MTUBytes:      e.limits.mtuBytes(),
		InjectBytes:   e.limits.done(),
		TxPrefixBytes: int(e.limits.tx()),
		RxPrefixBytes: int(e.limits.rx()),
		TxDepth:       clip(e.limits.txDepth, maxDepth),
		RxDepth:       clip(e.limits.rxDepth, maxDepth),
		IOVLimit:      clip(e.limits.iovLimit, maxDepth),
		LocalMR:       raw.local_mr != 0,
		Source:        raw.source != 0 && !r.rdm && tellsSource(prov),
		CanWait:       canWait(prov),
		Loopback:      loopsBack(prov),
		Reliable:      r.rdm,
		Ordered:       r.rdm && raw.ordered != 0,
		Attrs:         attrs(fi, uint32(raw.api_version)),
	}
	return e, e.info.MTUBytes > 0
}

// isAt reports whether an entry has no local address, or has the requested local address.
func (e *entry) isAt(node string) bool {
	want, err := netip.ParseAddr(node)
	have, ok := e.form.addrPort(e.src)
	return err != nil || !ok || have.Addr().Unmap() == want.WithZone("").Unmap()
}

// layeredBy reports whether the entry's provider uses the given layer of libfabric.
func (e *entry) layeredBy(layer string) bool {
	return strings.HasSuffix(providerOf(e.info.Provider), layer)
}

func formOf(kind C.int, srcBytes int) nameForm {
	switch {
	case kind == C.GOFI_ADDR_IN, kind == C.GOFI_ADDR_SOCKADDR && srcBytes == sockInBytes:
		return formSockIn
	case kind == C.GOFI_ADDR_IN6, kind == C.GOFI_ADDR_SOCKADDR && srcBytes == sockIn6Bytes:
		return formSockIn6
	case kind == C.GOFI_ADDR_STR:
		return formString
	}
	return formOpaque
}

var attrNames = [...]struct {
	name  string
	which C.int
}{
	{"protocol", C.GOFI_ATTR_PROTOCOL},
	{"caps", C.GOFI_ATTR_CAPS},
	{"mode", C.GOFI_ATTR_MODE},
	{"tx_attr.mode", C.GOFI_ATTR_TX_MODE},
	{"rx_attr.mode", C.GOFI_ATTR_RX_MODE},
	{"mr_mode", C.GOFI_ATTR_MR_MODE},
	{"addr_format", C.GOFI_ATTR_ADDR_FORMAT},
	{"av_type", C.GOFI_ATTR_AV_TYPE},
	{"threading", C.GOFI_ATTR_THREADING},
	{"data_progress", C.GOFI_ATTR_PROGRESS},
	{"resource_mgmt", C.GOFI_ATTR_RESOURCE_MGMT},
}

func attrs(fi *C.struct_fi_info, api uint32) []fabric.Attr {
	out := make([]fabric.Attr, 0, len(attrNames)+1)
	for _, a := range attrNames {
		if text := attrText(fi, a.which); text != "" {
			out = append(out, fabric.Attr{Name: a.name, Value: text})
		}
	}
	return append(out, fabric.Attr{Name: "api_version", Value: apiVersion(api)})
}

func attrText(fi *C.struct_fi_info, which C.int) string {
	var text [C.GOFI_TEXT_MAX]C.char
	C.gofi_attr_text(fi, which, &text[0], C.GOFI_TEXT_MAX)
	return strings.TrimSpace(C.GoString(&text[0]))
}

// apiVersion formats a FI_VERSION number.
func apiVersion(v uint32) string { return fmt.Sprintf("%d.%d", v>>16, v&0xffff) }

func strerror(code int) string {
	if load() != nil {
		return syscall.Errno(code).Error()
	}
	return C.GoString(C.gofi_strerror(C.int(code)))
}

// The method "printable" returns the usual text of an address, without the port. For an address
// without a printable form, the method "printable" returns an empty string.
func (f nameForm) printable(src []byte) string {
	if ap, ok := f.addrPort(src); ok {
		return ap.Addr().String()
	}
	if f == formString {
		return strings.TrimRight(string(src), "\x00")
	}
	return ""
}

// The function "rank" returns a sort key that orders providers by preference. Providers for network
// hardware come first, then unknown providers, and then the providers over the kernel's UDP and
// TCP. In the order of "rank", the shm provider, which reaches only this host, and the slow
// providers "udp;ofi_rxd" and "sockets" come last.
func rank(info fabric.Info) int {
	order := []string{
		"usnic", "efa", "verbs", "psm3", "psm2", "", "udp", "net", "tcp", "tcp;ofi_rxm", "shm",
		"udp;ofi_rxd", "sockets",
	}
	i := slices.Index(order, providerOf(info.Provider))
	if i < 0 {
		i = slices.Index(order, "")
	}
	return i
}

// The function "reach" returns a sort key that orders addresses. Addresses that remote hosts can
// reach come first, then link-local addresses, and then loopback addresses.
func reach(info fabric.Info) int {
	ip, err := netip.ParseAddr(info.Src)
	switch {
	case err != nil:
		return 0
	case ip.IsLoopback():
		return 3
	case ip.IsLinkLocalUnicast():
		return 2
	case ip.Is6():
		return 1
	}
	return 0
}

type provider struct{}

func init() { fabric.Register(provider{}) }

func (provider) Family() string { return family }

func (provider) GetInfo(h fabric.Hints) ([]fabric.Info, error) {
	if f, _, _ := strings.Cut(h.Provider, "/"); f != "" && f != family {
		return nil, nil
	}
	v, ok := variantOf(h.Provider)
	if !ok {
		return nil, nil
	}
	if err := load(); err != nil {
		return nil, err
	}
	nodes, err := numeric(h.Node)
	if err != nil {
		return nil, err
	}
	var infos []fabric.Info
	for _, node := range nodes {
		h.Node = node
		got, err := listNode(h, v)
		if err != nil {
			return nil, err
		}
		infos = append(infos, got...)
	}
	slices.SortStableFunc(infos, func(a, b fabric.Info) int {
		switch {
		case a.Reliable == b.Reliable:
			return 0
		case b.Reliable:
			return -1
		}
		return 1
	})
	return infos, nil
}

// listNode lists the Infos that hints with a numeric Hints.Node select. Infos of datagram endpoints
// come first.
func listNode(h fabric.Hints, v variant) ([]fabric.Info, error) {
	var infos []fabric.Info
	if !v.rdm {
		var err error
		if infos, err = listOne(request{hints: h, variant: v}); err != nil {
			return nil, err
		}
	}
	if v.offload || v.prov != "" && len(infos) > 0 {
		return infos, nil
	}
	reliable, err := listOne(request{hints: h, variant: v, rdm: true})
	if err != nil {
		return infos, nil // the datagram endpoints are valid results
	}
	datagram := infos
	for _, info := range reliable {
		if !v.rdm && slices.ContainsFunc(datagram, func(i fabric.Info) bool {
			return i.Provider == info.Provider
		}) {
			info.Provider += optionRDM
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// listOne lists the Infos that one query finds, best first.
func listOne(r request) ([]fabric.Info, error) {
	plain, err := query(r)
	defer plain.free()
	if err != nil {
		return nil, err
	}
	var infos []fabric.Info
	for _, e := range plain.entries {
		if !slices.ContainsFunc(infos, func(i fabric.Info) bool { return same(i, e.info) }) {
			infos = append(infos, e.info)
		}
	}
	markSourced(infos, r)
	slices.SortStableFunc(infos, func(a, b fabric.Info) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(reach(a), reach(b)))
	})
	return infos, nil
}

// markSourced sets the field Source of each Info for which a query with FI_SOURCE returns a result.
func markSourced(infos []fabric.Info, r request) {
	r.source = true
	sourced, err := query(r)
	defer sourced.free()
	if err != nil {
		return
	}
	for i := range infos {
		infos[i].Source = slices.ContainsFunc(sourced.entries, func(e entry) bool {
			return e.info.Source && same(infos[i], e.info)
		})
	}
}

// The function "same" reports whether two infos describe the same provider on the same network.
func same(a, b fabric.Info) bool {
	return strings.EqualFold(a.Provider, b.Provider) && a.Fabric == b.Fabric &&
		a.Domain == b.Domain && a.Src == b.Src && a.AddrFormat == b.AddrFormat
}

// The method "matches" reports whether an entry matches the Info of a caller. An empty field of the
// Info matches every entry.
func (e *entry) matches(want fabric.Info) bool {
	ok := func(want, have string) bool { return want == "" || want == have }
	return ok(want.Fabric, e.info.Fabric) && ok(want.Domain, e.info.Domain) &&
		ok(want.Src, e.info.Src) && ok(want.AddrFormat, e.info.AddrFormat)
}

func (l *list) find(want fabric.Info) *entry {
	for i := range l.entries {
		if l.entries[i].matches(want) {
			return &l.entries[i]
		}
	}
	return nil
}

// Open queries libfabric again, and opens the first result that matches the argument "info".
func (provider) Open(info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error) {
	v, ok := variantOf(info.Provider)
	if !ok || v.prov == "" {
		return nil, fmt.Errorf("%w: %q, want a name such as %q", fabric.ErrNoProvider,
			info.Provider, "ofi/udp")
	}
	if err := load(); err != nil {
		return nil, err
	}
	nodes, err := numeric(info.Node)
	if err != nil {
		return nil, err
	}
	r := request{
		hints:   fabric.Hints{Provider: info.Provider, Domain: info.Domain, Node: nodes[0]},
		variant: v, fabric: info.Fabric, rdm: v.rdm,
	}
	d, err := openFound(r, info, cfg)
	if errors.Is(err, errNotFound) && !v.rdm && !v.offload {
		r.rdm = true
		d, err = openFound(r, info, cfg)
	}
	return d, err
}

var errNotFound = fmt.Errorf("%w of libfabric", fabric.ErrNoProvider)

// openFound queries libfabric, and opens the first result that matches the argument "info".
func openFound(r request, info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error) {
	plain, err := query(r)
	defer plain.free()
	if err != nil {
		return nil, err
	}
	e := plain.find(info)
	if e == nil {
		return nil, fmt.Errorf("%w: nothing for %q, domain %q, node %q", errNotFound,
			info.Provider, info.Domain, info.Node)
	}
	r.source = true
	sourced, err := query(r)
	defer sourced.free()
	var withSource *entry
	if err == nil {
		withSource = sourced.find(e.info)
	}
	return openDomain(e, withSource, cfg)
}

// The function "failed" makes an error from a failure that the shim (the C part of the package) has
// reported.
func failed(provider string, f *C.struct_gofi_fail) error {
	return newError(provider, C.GoString(f.op), int(f.code), strerror)
}
