// internal.h: what the C files of the shim share.
#ifndef GOBTL_OFI_INTERNAL_H
#define GOBTL_OFI_INTERNAL_H

#include "shim.h"

// GOFI_HEADERS is defined if libfabric's headers are installed. absent.c takes the place of the
// code that needs them.
#if __has_include(<rdma/fabric.h>)
#define GOFI_HEADERS

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

// The API that this code is written for. A literal: the headers' own macro would ask an older
// library for more than it has, and a newer one for behaviour that was not coded for.
#define GOFI_API FI_VERSION(1, 9)

// An Addr is generation << 32 | index, a Region is generation << 20 | index with an index above 0:
// one that was removed is not mistaken for its successor. A living peer's generation is not 0.
enum { GOFI_REGION_BITS = 20, GOFI_REGION_INDEX = (1 << GOFI_REGION_BITS) - 1 };

// gofi_name is a socket address without padding, so that names compare as bytes.
struct gofi_name {
	uint64_t ip[2];
	uint32_t scope;
	uint16_t port, family;
};

struct gofi_peer {
	fi_addr_t fi; // an index on some providers, a pointer on others
	uint32_t gen;
	uint32_t copied; // sends that were copied (copies.c), and have not completed
	uint32_t waiting; // copies that the provider does not take yet, from first to last
	uint32_t next;    // of gofi_domain.waiting
	struct gofi_copy *first, *last;
	struct gofi_name name; // zero where it is no socket address
};

struct gofi_region {
	char *base; // NULL: free
	uint64_t len;
	struct fid_mr *mr;
	void *desc;
	uint32_t id;
};

// gofi_table is a hash from a key, such as a fi_addr_t, to an Addr; addr 0 is an empty entry.
struct gofi_entry {
	uint64_t key;
	uint64_t addr;
};

struct gofi_table {
	struct gofi_entry *entries; // 1 << bits, 0 for none yet
	uint32_t bits, used;
};

enum { GOFI_USE_RECV = -1 };

struct gofi_domain {
	struct gofi_layout lay;
	char *arena;
	size_t arena_bytes;
	void *desc;               // fi_mr_desc of the arena, NULL without FI_MR_LOCAL
	struct fi_context2 *ctx;  // one per buffer, NULL when the provider wants none
	int32_t *use;             // per buffer: GOFI_USE_RECV, or sends that have not completed
	struct gofi_peer *peers;
	uint32_t peer_cap;
	struct gofi_region *regions;
	uint32_t region_cap;
	struct gofi_table back;   // from fi_addr_t
	struct gofi_table named;  // from a hash of gofi_name
	struct gofi_ep *eps;
	struct gofi_copy *copies; // free ones (copies.c)
	struct gofi_block *blocks;
	uint32_t copied; // sends that were copied, and have not completed; of them
	uint32_t left;   // those to peers that were removed
	uint32_t waiting; // the first peer for which copies wait, its index plus one; 0: none

	struct fi_info *info;
	struct fi_info *sourced;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_mr *mr;
	uint64_t next_key;
	int local_mr;
	int can_wait;
	int lingers;              // see domain.c
	struct gofi_ep *dead;     // closed endpoints that linger
	struct gofi_domain *next; // closed domains that linger
};

struct gofi_ep {
	struct gofi_domain *d;
	struct fid_ep *ep;
	struct fid_cq *tx;
	struct fid_cq *rx;
	uint32_t tx_depth, tx_out; // tx_out: sends whose completion was not read yet
	uint32_t rx_depth, rx_out;
	int source;
	int wait_fd;
	int socket; // a sleep waits for the provider's socket, not for wait_fd
	char *bounce; // a gathered send that is injected is put together here
	// Send completions that were read before a sleep, to see whether there are any: a ring.
	struct gofi_completion *stash;
	uint32_t stash_head, stash_count;
	uint16_t *mine; // per buffer: how many of d->use are this endpoint's, GOFI_MINE_RECV for a receive
	struct gofi_offload *off; // NULL: none
	uint32_t copied; // sends that were copied, and have not completed
	int64_t broken; // the result of every later call, once a queue failed for good
	struct gofi_ep *next;
};

enum { GOFI_MINE_RECV = 0xffff };

// gofi_lib is what libfabric exports, found when it is loaded (load.c). All else is called by the
// tables of its objects. Whoever has an object or a gofi_info has loaded it.
struct gofi_lib {
	__typeof__(fi_getinfo) *getinfo;
	__typeof__(fi_freeinfo) *freeinfo;
	__typeof__(fi_dupinfo) *dupinfo; // of NULL: an empty one
	__typeof__(fi_fabric) *fabric;
	__typeof__(fi_version) *version;
	__typeof__(fi_strerror) *strerror;
	__typeof__(fi_tostr_r) *tostr_r;
};

extern struct gofi_lib gofi_lib;

static inline int64_t gofi_result(int64_t n, int code, int call)
{
	return (int64_t)call << 56 | (int64_t)code << 32 | n;
}

// gofi_failed records a failure; ret is what libfabric returned, or a GOFI_* code negated.
static inline int gofi_failed(struct gofi_fail *fail, const char *op, int64_t ret)
{
	fail->op = op;
	fail->code = ret < 0 ? (int)-ret : FI_EOTHER;
	return fail->code;
}

static inline char *gofi_slot(const struct gofi_domain *d, uint32_t buf)
{
	return d->arena + (size_t)buf * d->lay.stride + d->lay.headroom;
}

// A context is the buffer's fi_context where the provider wants one, else its index plus one.
static inline void *gofi_context(const struct gofi_domain *d, uint32_t buf)
{
	return d->ctx ? (void *)&d->ctx[buf] : (void *)((uintptr_t)buf + 1);
}

// gofi_close_fid closes *fid if it is open and records only the first failure.
static inline void gofi_close_fid(struct fid *fid, const char *op, struct gofi_fail *fail)
{
	int ret = fid ? fi_close(fid) : 0;

	if (ret && !fail->code)
		gofi_failed(fail, op, ret);
}

// What follows stands on floors, from the ground up: a file calls those before it (doc.go has the
// picture, floors_test.go holds it).

// peers.c. gofi_addr_of returns the Addr of a source, or FI_ADDR_NOTAVAIL; gofi_addr_named that of
// a source that a socket named.
struct sockaddr_in6;
uint64_t gofi_addr_of(const struct gofi_domain *d, fi_addr_t fi);
uint64_t gofi_addr_named(const struct gofi_domain *d, const struct sockaddr_in6 *name);
int gofi_reg_mr(struct gofi_domain *d, void *base, uint64_t len, uint64_t access,
	struct fid_mr **mr, struct gofi_fail *fail);

// gofi_parts is a checked send.
struct gofi_parts {
	char *head, *tail;
	uint32_t head_len, tail_len;
	void *tail_desc;
	fi_addr_t to;
};

// copies.c. gofi_inject sends bytes that the provider copies before it returns: what libfabric
// returns.
ssize_t gofi_inject(struct gofi_ep *ep, const struct gofi_parts *p);

// gofi_post_copy posts a send as a copy: 0, or the form of gofi_result with count 0.
int64_t gofi_post_copy(struct gofi_ep *ep, const struct gofi_parts *p, uint64_t to);

// gofi_offer_copies offers the provider those that wait.
void gofi_offer_copies(struct gofi_domain *d);

// gofi_drop_copies drops those that wait for a peer, or for any (NULL), from one endpoint, or from
// any.
void gofi_drop_copies(struct gofi_domain *d, struct gofi_peer *peer, const struct gofi_ep *ep);

// gofi_read_copies takes back the copies that have been sent: 0, or the failure of their queue.
int64_t gofi_read_copies(struct gofi_ep *ep);

// gofi_free_copies frees all, once libfabric's objects are closed: until then what is being sent
// may be read.
void gofi_free_copies(struct gofi_domain *d);

// data.c. gofi_find_parts checks a send and finds its bytes; 0 or a code.
int gofi_find_parts(struct gofi_domain *d, const struct gofi_send *s, struct gofi_parts *p);

// gofi_post_one posts one send: 0, or the form of gofi_result with count 0.
int64_t gofi_post_one(struct gofi_ep *ep, const struct gofi_send *s);

// gofi_post_each posts sends one by one: the form of gofi_result.
int64_t gofi_post_each(struct gofi_ep *ep, const struct gofi_send *sends, int n);

// gofi_read_queue writes up to max completions of one queue: their number, with a failure above it.
int64_t gofi_read_queue(struct gofi_ep *ep, struct fid_cq *cq, int op,
	struct gofi_completion *out, int max);

// offload_recv.c and offload.c.
int gofi_offload_recv(struct gofi_offload *o, uint32_t buf);
int64_t gofi_offload_poll(struct gofi_ep *ep, struct gofi_completion *out, int max);
int gofi_offload_ready(struct gofi_offload *o);
int64_t gofi_offload_post(struct gofi_ep *ep, const struct gofi_send *sends, int n);
void gofi_offload_free(struct gofi_offload *o);

// endpoint.c. gofi_ep_free closes and frees an endpoint that is no longer on the domain's list.
void gofi_ep_free(struct gofi_ep *ep, struct gofi_fail *fail);

#endif // GOFI_HEADERS
#endif
