//go:build linux && cgo

// data.c: datagrams through libfabric's own calls, and their completions. Nothing here allocates,
// locks or reads a clock.
#include "internal.h"

#ifdef GOFI_HEADERS

#include <string.h>
#include <sys/uio.h>

// Completions read by one call of libfabric: bounds the stack; longer batches loop.
enum { READ_CHUNK = 32 };

// buf_of returns the buffer of a context, or lay.count for one that is not ours.
static inline uint32_t buf_of(const struct gofi_domain *d, const void *context)
{
	uintptr_t i = (uintptr_t)context - 1;

	if (d->ctx)
		i = ((uintptr_t)context - (uintptr_t)d->ctx) / sizeof(*d->ctx);
	return i < d->lay.count ? (uint32_t)i : d->lay.count;
}

static inline void done(struct gofi_ep *ep, uint32_t buf, int op)
{
	if (op == GOFI_OP_RECV) {
		ep->d->use[buf] = 0;
		ep->mine[buf] = 0;
		ep->rx_out--;
	} else {
		ep->d->use[buf]--;
		ep->mine[buf]--;
		ep->tx_out--;
	}
}

// find_tail checks the region that a send names and finds its bytes.
static int find_tail(const struct gofi_domain *d, const struct gofi_send *s, char **tail,
	void **desc)
{
	uint32_t index = s->region & GOFI_REGION_INDEX;
	const struct gofi_region *r;

	if (index >= d->region_cap)
		return GOFI_BAD_REGION;
	r = &d->regions[index];
	if (!r->base || r->id != s->region)
		return GOFI_BAD_REGION;
	// Compared this way round, no sum of the caller's numbers can wrap.
	if (s->region_off > r->len || s->region_len > r->len - s->region_off)
		return GOFI_BAD_REGION;
	*tail = r->base + s->region_off;
	*desc = r->desc;
	return 0;
}

// find_parts checks a send and finds its bytes; 0 or a code.
static inline int find_parts(struct gofi_domain *d, const struct gofi_send *s,
	struct gofi_parts *p)
{
	const struct gofi_layout *lay = &d->lay;
	uint32_t index = (uint32_t)s->to;

	if (s->buf >= lay->count)
		return GOFI_BAD_BUF;
	if (d->use[s->buf] == GOFI_USE_RECV)
		return GOFI_BUSY_BUF;
	if (index >= d->peer_cap || d->peers[index].gen != s->to >> 32 || !(s->to >> 32))
		return GOFI_BAD_PEER;
	if (s->len > lay->size)
		return GOFI_TOO_LONG;
	*p = (struct gofi_parts){
		.head = gofi_slot(d, s->buf), .head_len = s->len, .to = d->peers[index].fi};
	if (s->region) {
		int code = find_tail(d, s, &p->tail, &p->tail_desc);

		if (code)
			return code;
		p->tail_len = s->region_len;
	}
	return (uint64_t)s->len + p->tail_len > lay->mtu ? GOFI_TOO_LONG : 0;
}

int gofi_find_parts(struct gofi_domain *d, const struct gofi_send *s, struct gofi_parts *p)
{
	return find_parts(d, s, p);
}

// post_one returns 0, or a code and the call in the form of gofi_result with count 0.
static inline int64_t post_one(struct gofi_ep *ep, const struct gofi_send *s)
{
	struct gofi_domain *d = ep->d;
	uint32_t prefix = d->lay.tx_prefix;
	struct gofi_parts p;
	ssize_t ret;
	int call = find_parts(d, s, &p);

	if (call)
		return gofi_result(0, call, GOFI_CALL_NONE);
	if (d->lay.quirks & GOFI_COPIES)
		return gofi_post_copy(ep, &p, s->to);
	if (p.head_len + p.tail_len <= d->lay.inject) {
		ret = gofi_inject(ep, &p);
		return ret ? gofi_result(0, (int)-ret, GOFI_CALL_INJECT) : 0;
	}
	// A provider with FI_CONTEXT writes into it until the completion, so it serves one send.
	if (ep->tx_out + ep->stash_count >= ep->tx_depth || (d->ctx && d->use[s->buf]))
		return gofi_result(0, GOFI_AGAIN, GOFI_CALL_NONE);
	if (p.tail_len) {
		struct iovec iov[2] = {
			{p.head - prefix, (size_t)prefix + p.head_len}, {p.tail, p.tail_len}};
		void *desc[2] = {d->desc, p.tail_desc};

		call = GOFI_CALL_SENDV;
		ret = fi_sendv(ep->ep, iov, desc, 2, p.to, gofi_context(d, s->buf));
	} else {
		call = GOFI_CALL_SEND;
		ret = fi_send(ep->ep, p.head - prefix, (size_t)prefix + p.head_len, d->desc, p.to,
			gofi_context(d, s->buf));
	}
	if (ret)
		return gofi_result(0, (int)-ret, call);
	ep->tx_out++;
	ep->mine[s->buf]++;
	d->use[s->buf]++;
	return 0;
}

int64_t gofi_post_one(struct gofi_ep *ep, const struct gofi_send *s)
{
	return post_one(ep, s);
}

int64_t gofi_post_each(struct gofi_ep *ep, const struct gofi_send *sends, int n)
{
	for (int i = 0; i < n; i++) {
		int64_t stop = post_one(ep, &sends[i]);

		if (stop)
			return stop | i;
	}
	return n;
}

// complete fills one completion; 0 or a code.
static inline int complete(struct gofi_ep *ep, int op, void *context, size_t len, uint64_t from,
	int err, struct gofi_completion *out)
{
	uint32_t buf = buf_of(ep->d, context), prefix = ep->d->lay.rx_prefix;

	if (buf == ep->d->lay.count || !ep->mine[buf] ||
	    (ep->mine[buf] == GOFI_MINE_RECV) != (op == GOFI_OP_RECV))
		return GOFI_BAD_CONTEXT;
	if (op == GOFI_OP_SEND)
		len = 0;
	else
		len = len > prefix ? len - prefix : 0;
	*out = (struct gofi_completion){
		.from = from,
		.buf = buf,
		.len = len < UINT32_MAX ? (uint32_t)len : UINT32_MAX,
		.err = err,
		.op = (uint8_t)op,
	};
	done(ep, buf, op);
	return 0;
}

// read_error takes the error entry that stops a queue: 1 with a completion, 0 with none, or the
// gofi_result form of a failure, which is negative-free and above every count.
static int64_t read_error(struct gofi_ep *ep, struct fid_cq *cq, int op,
	struct gofi_completion *out)
{
	struct fi_cq_err_entry e;
	ssize_t ret;
	int err, code;

	memset(&e, 0, sizeof(e)); // err_data_size 0: the provider keeps its error data
	ret = fi_cq_readerr(cq, &e, 0);
	if (ret == -FI_EAGAIN || ret == 0)
		return 0;
	if (ret < 0)
		return gofi_result(0, (int)-ret, GOFI_CALL_READERR);
	// One of its own messages to a peer that is gone; sends to that peer fail by themselves.
	if (op == GOFI_OP_SEND && !e.op_context && ep->d->lay.quirks & GOFI_PRIVATE_SENDS)
		return 0;
	err = e.err > 0 ? e.err : e.err < 0 ? -e.err : FI_EOTHER; // shm of libfabric 1 says -FI_ETRUNC
	code = complete(ep, op, e.op_context, e.len + e.olen, FI_ADDR_NOTAVAIL, err, out);
	// An entry without a buffer of ours speaks of the device: nothing can be given back for it.
	if (code)
		return gofi_result(0, e.op_context ? code : err, GOFI_CALL_READERR);
	return 1;
}

int64_t gofi_read_queue(struct gofi_ep *ep, struct fid_cq *cq, int op,
	struct gofi_completion *out, int max)
{
	struct fi_cq_msg_entry entry[READ_CHUNK];
	fi_addr_t src[READ_CHUNK];
	int sourced = op == GOFI_OP_RECV && ep->source;
	int n = 0;

	while (n < max) {
		size_t want = max - n < READ_CHUNK ? (size_t)(max - n) : READ_CHUNK;
		ssize_t got = sourced ? fi_cq_readfrom(cq, entry, want, src) : fi_cq_read(cq, entry, want);

		if (got == -FI_EAVAIL) {
			int64_t ret = read_error(ep, cq, op, &out[n]);

			if (ret != 1)
				return ret ? ret | n : n;
			n++;
			continue;
		}
		if (got == -FI_EAGAIN || got == 0)
			break;
		if (got < 0)
			return gofi_result(n, (int)-got, GOFI_CALL_READ);
		for (ssize_t i = 0; i < got; i++) {
			uint64_t from = sourced ? gofi_addr_of(ep->d, src[i]) : FI_ADDR_NOTAVAIL;
			int code = complete(ep, op, entry[i].op_context, entry[i].len, from, 0, &out[n]);

			if (code)
				return gofi_result(n, code, GOFI_CALL_READ);
			n++;
		}
	}
	return n;
}

#endif
