// shim.h: the C half of package ofi, as Go sees it. The shim owns every libfabric object and the
// arena; Go holds two opaque pointers (domain, endpoint) and passes plain numbers.
#ifndef GOBTL_OFI_SHIM_H
#define GOBTL_OFI_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct fi_info;
struct gofi_domain;
struct gofi_ep;

// gofi_send and gofi_completion are fabric.Send and fabric.Completion byte for byte: slices of
// those are passed as they are. Both languages assert sizes and offsets at compile time.
struct gofi_send {
	uint64_t to;
	uint64_t region_off;
	uint32_t buf;
	uint32_t len;
	uint32_t region;
	uint32_t region_len;
};

struct gofi_completion {
	uint64_t from;
	uint32_t buf;
	uint32_t len;
	int32_t err;
	uint8_t op;
	uint8_t zero[3];
	uint32_t landed, landed_off;
};

_Static_assert(sizeof(struct gofi_send) == 32, "fabric.Send changed");
_Static_assert(offsetof(struct gofi_send, region_off) == 8, "fabric.Send.RegionOff moved");
_Static_assert(offsetof(struct gofi_send, buf) == 16, "fabric.Send.Buf moved");
_Static_assert(offsetof(struct gofi_send, len) == 20, "fabric.Send.Len moved");
_Static_assert(offsetof(struct gofi_send, region) == 24, "fabric.Send.Region moved");
_Static_assert(offsetof(struct gofi_send, region_len) == 28, "fabric.Send.RegionLen moved");
_Static_assert(sizeof(struct gofi_completion) == 32, "fabric.Completion changed");
_Static_assert(offsetof(struct gofi_completion, buf) == 8, "fabric.Completion.Buf moved");
_Static_assert(offsetof(struct gofi_completion, len) == 12, "fabric.Completion.Len moved");
_Static_assert(offsetof(struct gofi_completion, err) == 16, "fabric.Completion.Errno moved");
_Static_assert(offsetof(struct gofi_completion, op) == 20, "fabric.Completion.Op moved");
_Static_assert(offsetof(struct gofi_completion, landed) == 24, "fabric.Completion.Landed moved");

enum { GOFI_OP_SEND = 1, GOFI_OP_RECV = 2 };

// Codes beside libfabric's own (positive errno values below GOFI_CODE_BASE): what the shim itself
// refuses. errors.go gives them their words.
enum {
	GOFI_CODE_BASE = 0x10000,
	GOFI_BAD_BUF = GOFI_CODE_BASE, // buffer index outside the arena
	GOFI_BUSY_BUF,                 // buffer is posted for another use
	GOFI_BAD_PEER,                 // Addr was never given out, or was removed
	GOFI_TOO_LONG,                 // longer than the buffer or the MTU
	GOFI_BAD_REGION,               // no such region, or bytes outside it
	GOFI_BAD_CONTEXT,              // a completion names no buffer of ours
	GOFI_NO_ADDRESS,               // fi_av_insert took no address
	GOFI_LONG_NAME,                // fi_getname wants more than 64 bytes
	GOFI_CODE_END
};

// The libfabric call that a batch stopped at.
enum {
	GOFI_CALL_NONE,
	GOFI_CALL_INJECT,
	GOFI_CALL_SEND,
	GOFI_CALL_SENDV,
	GOFI_CALL_RECV,
	GOFI_CALL_READ,
	GOFI_CALL_READERR,
	GOFI_CALL_TRYWAIT,
	GOFI_CALL_SENDMSG,
	GOFI_CALL_RECVMSG, // the socket's
	GOFI_CALL_END
};

// The batch calls return their count in bits 0 to 31, a code in bits 32 to 55 (0: all was done,
// GOFI_AGAIN: queue full) and the failing call in bits 56 to 62. One register, no out parameter.
enum { GOFI_AGAIN = 11 };

// gofi_fail tells what failed while something was opened or closed. op is a string constant.
struct gofi_fail {
	const char *op;
	int code;
};

enum { GOFI_NAME_MAX = 64, GOFI_TEXT_MAX = 512 };

// gofi_info is the part of struct fi_info that Go needs, flattened: Go never looks into structures
// whose macros and comments differ between libfabric 1.x and 2.x.
struct gofi_info {
	const char *prov;   // these three live as long as the fi_info; "" when absent
	const char *fabric;
	const char *domain;
	uint64_t max_msg_size;
	uint64_t prefix_size;
	uint64_t inject_size;
	uint64_t tx_size;
	uint64_t rx_size;
	uint64_t iov_limit;
	uint32_t addr_format;
	uint32_t prov_version;
	uint32_t api_version;
	uint32_t src_len; // bytes of src used; 0 when libfabric names none
	uint8_t tx_prefix; // FI_MSG_PREFIX in tx_attr->mode
	uint8_t rx_prefix;
	uint8_t local_mr;
	uint8_t source;
	uint8_t dgram;
	uint8_t rdm;
	uint8_t ordered; // sends arrive in their order (FI_ORDER_SAS)
	uint8_t src[GOFI_NAME_MAX];
};

// Address formats that errors and name checks must know, as numbers of our own.
enum {
	GOFI_ADDR_OTHER,
	GOFI_ADDR_SOCKADDR,
	GOFI_ADDR_IN,
	GOFI_ADDR_IN6,
	GOFI_ADDR_STR
};

// Attributes that gofi_attr_text prints.
enum {
	GOFI_ATTR_CAPS,
	GOFI_ATTR_MODE,
	GOFI_ATTR_TX_MODE,
	GOFI_ATTR_RX_MODE,
	GOFI_ATTR_ADDR_FORMAT,
	GOFI_ATTR_PROTOCOL,
	GOFI_ATTR_THREADING,
	GOFI_ATTR_PROGRESS,
	GOFI_ATTR_RESOURCE_MGMT,
	GOFI_ATTR_AV_TYPE,
	GOFI_ATTR_MR_MODE,
	GOFI_ATTR_END
};

// gofi_query narrows gofi_getinfo; NULL strings do not.
struct gofi_query {
	const char *prov;
	const char *fabric;
	const char *domain;
	const char *node; // local address to bind
	int source;       // ask for FI_SOURCE
	int rdm;          // FI_EP_RDM, else FI_EP_DGRAM
};

// What the provider does besides what it should (quirks.go).
enum {
	GOFI_PRIVATE_SENDS = 1,    // it sends messages of its own by the queue of the caller's sends
	GOFI_REMOVE_COMPLAINS = 2, // fi_av_remove may say EINVAL after it has removed
	GOFI_KEEPS_PEERS = 4,      // fi_av_remove must not be called
	GOFI_COPIES = 8            // it keeps for ever what a peer does not take: copies.c
};

// gofi_layout is the arena's geometry, computed in Go (layout.go).
struct gofi_layout {
	uint32_t count;
	uint32_t size;     // caller's bytes per buffer
	uint32_t headroom; // bytes before them
	uint32_t stride;
	uint32_t tx_prefix;
	uint32_t rx_prefix;
	uint32_t mtu;
	uint32_t inject;
	uint32_t quirks; // GOFI_PRIVATE_SENDS ..
};

struct gofi_ep_cfg {
	uint32_t tx_depth;
	uint32_t rx_depth;
	int source;
	int wait;
};

// gofi_ep_info is what an endpoint turned out to be.
struct gofi_ep_info {
	int wait_fd; // -1: none
	int source;
	uint32_t name_len;
	uint8_t name[GOFI_NAME_MAX];
};

// gofi_load loads libfabric: 0, or -1 with the reason in why, or -2 in a build without libfabric's
// headers (absent.c). Nothing else is called before.
int gofi_load(const char *soname, char *why, size_t size);

// gofi_signals_save notes the process's signal handlers, gofi_signals_restore puts those back that
// have changed since; both return their number. One caller at a time.
int gofi_signals_save(void);
int gofi_signals_restore(void);

// Information. gofi_getinfo returns a positive errno or 0.
int gofi_getinfo(const struct gofi_query *q, struct fi_info **out);
void gofi_freeinfo(struct fi_info *fi);
struct fi_info *gofi_next(const struct fi_info *fi);
void gofi_describe(const struct fi_info *fi, struct gofi_info *out);
int gofi_addr_kind(const struct fi_info *fi);
void gofi_attr_text(const struct fi_info *fi, int which, char *text, size_t size);
uint32_t gofi_version(void);
const char *gofi_strerror(int code);

// Domain. sourced may be NULL: the same info asked for with FI_SOURCE. Both are copied.
struct gofi_domain *gofi_domain_open(const struct fi_info *info, const struct fi_info *sourced,
	const struct gofi_layout *lay, struct gofi_fail *fail);
void gofi_domain_close(struct gofi_domain *d, struct gofi_fail *fail);
void *gofi_arena(struct gofi_domain *d);
uint64_t gofi_arena_bytes(struct gofi_domain *d);
int gofi_can_wait(struct gofi_domain *d);
int gofi_has_source(struct gofi_domain *d);

// Peers and regions: the index and its generation are chosen by Go; the shim checks them. known is
// the fi_addr_t that libfabric has for the name already, or GOFI_NO_FI_ADDR. gofi_fi_addr returns
// that of a peer. After gofi_remove kept says whether libfabric has it still, for ever or because
// it has sends for it: then its index is not used for another peer. gofi_forget removes such a one
// when nothing is there for it any more: it returns 1 then, else 0. gofi_copied is how many sends
// of copies libfabric has not completed (for tests).
#define GOFI_NO_FI_ADDR UINT64_MAX
int gofi_insert(struct gofi_domain *d, uint64_t addr, const void *name, uint64_t known,
	struct gofi_fail *fail);
uint64_t gofi_fi_addr(const struct gofi_domain *d, uint64_t addr);
int gofi_remove(struct gofi_domain *d, uint64_t addr, int *kept, struct gofi_fail *fail);
int gofi_forget(struct gofi_domain *d, uint32_t index);
uint32_t gofi_copied(const struct gofi_domain *d);
int gofi_region_add(struct gofi_domain *d, uint32_t region, void *base, uint64_t len,
	struct gofi_fail *fail);
int gofi_region_drop(struct gofi_domain *d, uint32_t region, struct gofi_fail *fail);

// Endpoints.
struct gofi_ep *gofi_ep_open(struct gofi_domain *d, const struct gofi_ep_cfg *cfg,
	struct gofi_ep_info *out, struct gofi_fail *fail);
void gofi_ep_close(struct gofi_ep *ep, struct gofi_fail *fail);

// gofi_offload_start sets segmentation offload on the endpoint's socket, whose descriptor is fd,
// and tries it out with a burst to the endpoint's own name. 0, or why the endpoint goes on without.
// It is asked for right after gofi_ep_open and gofi_wait_socket, before anything is posted.
int gofi_offload_start(struct gofi_ep *ep, int fd, uint32_t max_run_bytes, const void *name,
	struct gofi_fail *fail);

// gofi_offload_land has the bytes of the datagrams to come behind their first head bytes put into
// mem, one behind the other (fabric.Lander). NULL ends it.
void gofi_offload_land(struct gofi_ep *ep, void *mem, uint64_t len, uint32_t head);

// gofi_offload_info is the state of an endpoint's offload.
struct gofi_offload_info {
	int on;         // runs are sent as one, received as one, or both
	int send, recv; // 1: in use
	int send_err;   // the errno that ended it, 0: none did
	uint64_t lost;  // receives dropped because nobody could tell where their datagrams begin
};
void gofi_offload_describe(const struct gofi_ep *ep, struct gofi_offload_info *out);

// Data path.
int64_t gofi_post(struct gofi_ep *ep, const struct gofi_send *sends, int n);
int64_t gofi_recv(struct gofi_ep *ep, const uint32_t *bufs, int n);
int64_t gofi_poll(struct gofi_ep *ep, struct gofi_completion *out, int max);

// gofi_progress lets the provider work, and takes no completion (for tests).
void gofi_progress(struct gofi_ep *ep);

// gofi_wait_socket tells that sleeps wait for the udp provider's socket, not for
// gofi_ep_info.wait_fd.
void gofi_wait_socket(struct gofi_ep *ep);

// gofi_before_sleep says what stands against sleeping: the count bits hold GOFI_SLEEP_* flags.
enum {
	GOFI_SLEEP_READY = 1, // something is there to poll: do not sleep
	GOFI_SLEEP_SHORT = 2, // sends are outstanding, which wake nobody
	GOFI_SLEEP_BLIND = 4  // an endpoint has no wait descriptor
};
int64_t gofi_before_sleep(struct gofi_domain *d);

#endif
