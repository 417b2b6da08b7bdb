//go:build linux && cgo

// offload.c: segmentation offload on the udp provider's own socket. A run of equal datagrams for
// one peer is one fi_inject, which the kernel cuts (UDP_SEGMENT); what the kernel has coalesced
// (UDP_GRO) is one receive, and cut here. Nothing here allocates, locks or reads a clock once it
// has started.
//
// Where to cut is never guessed. The size of the pieces comes with the datagram in a control
// message that libfabric does not ask for, so the head of the queue is looked at first (MSG_PEEK,
// no bytes), and libfabric has one receive posted at a time: it reads that datagram and no other.
// Does it read one of another length all the same, all that waits is dropped, and coalescing ends.
#include "internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	STAGE_BYTES = 1 << 16, // more than any datagram has
	RUN_SEGMENTS = 64,     // UDP_MAX_SEGMENTS of the oldest kernels that have it
	DRAIN_MAX = 1 << 16
};

struct gofi_offload {
	int fd;
	int gso, gro;         // in use
	int gso_err;          // the errno that ended gso
	uint32_t segment;     // UDP_SEGMENT as set now, 0: none
	uint32_t run_bytes;   // the most that one send takes
	int armed;            // libfabric has the receive of in
	char *in, *out;       // STAGE_BYTES each
	// What stands in in and was not handed out: pieces of step bytes from at on, the last one shorter.
	uint32_t left, at, end, step;
	uint64_t from;
	uint64_t lost;
	char *land;           // where what follows the first land_head bytes goes, NULL: nowhere
	uint64_t land_len, land_at;
	uint32_t land_head;
	uint32_t *posted;     // the caller's buffers that wait: a stack, so that warm ones come first
	uint32_t count;
};

static int set_option(const struct gofi_offload *o, int name, int value)
{
	return setsockopt(o->fd, SOL_UDP, name, &value, sizeof(value)) ? errno : 0;
}

// set_segment has the kernel cut what is longer than bytes from now on; 0: nothing.
static int set_segment(struct gofi_offload *o, uint32_t bytes)
{
	int err = o->segment == bytes ? 0 : set_option(o, UDP_SEGMENT, (int)bytes);

	if (!err)
		o->segment = bytes;
	return err;
}

static void end_gso(struct gofi_offload *o, int err)
{
	o->gso = 0;
	o->gso_err = err;
}

// doubtful says whether a failure is the provider's or the kernel's, and may be due to the offload.
static int doubtful(int64_t stop)
{
	int code = (int)(stop >> 32 & 0xffffff);

	return code && code < GOFI_CODE_BASE && code != GOFI_AGAIN;
}

// post_plain posts one datagram that must not be cut. A failure that goes away with the option was
// due to it: offload ends then.
static int64_t post_plain(struct gofi_ep *ep, const struct gofi_send *s)
{
	struct gofi_offload *o = ep->off;
	uint64_t len = (uint64_t)s->len + (s->region ? s->region_len : 0);
	int64_t stop;
	int err;

	if (o->segment && len > o->segment && (err = set_segment(o, 0)))
		return gofi_result(0, err, GOFI_CALL_INJECT); // it would be cut where nobody expects it
	stop = gofi_post_one(ep, s);
	if (!o->segment || !doubtful(stop) || set_segment(o, 0))
		return stop;
	err = (int)(stop >> 32 & 0xffffff);
	if (!(stop = gofi_post_one(ep, s)))
		end_gso(o, err);
	return stop;
}

// gather_run puts the datagrams of a run together and returns their number: of equal length but the
// last, which may be shorter, to one peer.
static int gather_run(struct gofi_ep *ep, const struct gofi_send *sends, int n, uint32_t *bytes,
	uint32_t *segment, fi_addr_t *to)
{
	struct gofi_offload *o = ep->off;
	uint32_t at = 0, step = 0, len = 0;
	int i;

	for (i = 0; i < n && i < RUN_SEGMENTS && len == step; i++) {
		const struct gofi_send *s = &sends[i];
		struct gofi_parts p;

		if (s->to != sends->to || gofi_find_parts(ep->d, s, &p))
			break;
		len = p.head_len + p.tail_len;
		if (i == 0) {
			step = len;
			*to = p.to;
		}
		if (len == 0 || len > step || at + len > o->run_bytes)
			break;
		memcpy(o->out + at, p.head, p.head_len);
		if (p.tail_len)
			memcpy(o->out + at + p.head_len, p.tail, p.tail_len);
		at += len;
	}
	*bytes = at;
	*segment = step;
	return i;
}

// pairs says whether the first two sends may be a run: what is alone is not copied for it.
static int pairs(const struct gofi_send *s, int n)
{
	uint64_t a, b;

	if (n < 2 || s[0].to != s[1].to)
		return 0;
	a = (uint64_t)s[0].len + (s[0].region ? s[0].region_len : 0);
	b = (uint64_t)s[1].len + (s[1].region ? s[1].region_len : 0);
	return b && b <= a;
}

// post_run posts the first sends as one if they are a run, and returns their number; 0 if they are
// none, or cannot go as one. *run_err is why, if that may be due to the offload.
static int64_t post_run(struct gofi_ep *ep, const struct gofi_send *sends, int n, int *run_err)
{
	struct gofi_offload *o = ep->off;
	uint32_t bytes, segment;
	fi_addr_t to = FI_ADDR_NOTAVAIL;
	ssize_t ret;
	int run, err;

	if (!o->gso || !pairs(sends, n))
		return 0;
	run = gather_run(ep, sends, n, &bytes, &segment, &to);
	if (run < 2)
		return 0;
	err = set_segment(o, segment);
	if (err) {
		end_gso(o, err);
		return 0;
	}
	if (!(ret = fi_inject(ep->ep, o->out, bytes, to)))
		return run;
	if (ret == -FI_EAGAIN)
		return gofi_result(0, GOFI_AGAIN, GOFI_CALL_INJECT);
	// The first datagram goes alone: does it fail too, then that is not the offload's fault. Nor is a
	// want of memory, which a large send feels first.
	*run_err = ret == -FI_ENOMEM || ret == -FI_ENOBUFS ? 0 : (int)-ret;
	return 0;
}

int64_t gofi_offload_post(struct gofi_ep *ep, const struct gofi_send *sends, int n)
{
	int i = 0;

	while (i < n) {
		int run_err = 0;
		int64_t run = post_run(ep, &sends[i], n - i, &run_err);

		if (run > INT32_MAX)
			return run | i;
		if (!run) {
			run = post_plain(ep, &sends[i]);
			if (run)
				return run | i;
			if (run_err)
				end_gso(ep->off, run_err);
			run = 1;
		}
		i += (int)run;
	}
	return n;
}

int gofi_offload_recv(struct gofi_offload *o, uint32_t buf)
{
	o->posted[o->count++] = buf; // no more than rx_depth: gofi_recv has counted
	return 0;
}

// peek looks at the first datagram of the queue: its length, -1 for none. *step is the size of the
// pieces.
static int64_t peek(const struct gofi_offload *o, uint32_t *step)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(o->fd, &msg, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	struct cmsghdr *c;
	int size = 0;

	if (len < 0)
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
		memcpy(&size, CMSG_DATA(c), sizeof(size));
	*step = size > 0 && size < len ? (uint32_t)size : (uint32_t)len;
	return len;
}

// read_one has libfabric read one datagram into in: 1, 0 for none, or the form of gofi_result.
static int64_t read_one(struct gofi_ep *ep, uint64_t *len)
{
	struct gofi_offload *o = ep->off;
	struct fi_cq_msg_entry entry;
	struct fi_cq_err_entry bad;
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	ssize_t got;

	if (!o->armed) {
		got = fi_recv(ep->ep, o->in, STAGE_BYTES, NULL, FI_ADDR_UNSPEC, o);
		if (got)
			return got == -FI_EAGAIN ? 0 : gofi_result(0, (int)-got, GOFI_CALL_RECV);
		o->armed = 1;
	}
	got = ep->source ? fi_cq_readfrom(ep->rx, &entry, 1, &src) : fi_cq_read(ep->rx, &entry, 1);
	if (got == -FI_EAGAIN || got == 0)
		return 0;
	if (got == -FI_EAVAIL) {
		memset(&bad, 0, sizeof(bad));
		got = fi_cq_readerr(ep->rx, &bad, 0);
		o->armed = bad.op_context != o && o->armed;
		return got > 0 && bad.op_context ? 0 : gofi_result(0, bad.err > 0 ? bad.err : FI_EOTHER,
			GOFI_CALL_READERR);
	}
	if (got < 0)
		return gofi_result(0, (int)-got, GOFI_CALL_READ);
	if (entry.op_context != o)
		return gofi_result(0, GOFI_BAD_CONTEXT, GOFI_CALL_READ);
	o->armed = 0;
	o->from = ep->source ? gofi_addr_of(ep->d, src) : FI_ADDR_NOTAVAIL;
	*len = entry.len;
	return 1;
}

// end_gro ends coalescing, and drops all that may have been coalesced before.
static void end_gro(struct gofi_ep *ep)
{
	struct gofi_offload *o = ep->off;
	uint64_t len;

	o->gro = 0;
	(void)set_option(o, UDP_GRO, 0);
	for (int i = 0; i < DRAIN_MAX && read_one(ep, &len) == 1; i++)
		o->lost++;
}

// fetch fills in: 1, 0 for nothing there, FETCH_DOUBT, or the form of gofi_result.
enum { FETCH_DOUBT = 2 };

static int64_t fetch(struct gofi_ep *ep)
{
	struct gofi_offload *o = ep->off;
	int64_t want = -1, got;
	uint32_t step = 0;
	uint64_t len = 0;

	if (o->gro && (want = peek(o, &step)) < 0)
		return 0;
	if ((got = read_one(ep, &len)) != 1)
		return got;
	if (!o->gro)
		step = (uint32_t)len;
	if (len > STAGE_BYTES || (o->gro && len != (uint64_t)want)) {
		o->lost++;
		end_gro(ep);
		return FETCH_DOUBT;
	}
	o->at = 0;
	o->end = (uint32_t)len;
	o->step = step;
	o->left = len ? (o->end + step - 1) / step : 1;
	return 1;
}

// next_piece takes the next datagram out of in.
static char *next_piece(struct gofi_offload *o, uint32_t *len)
{
	char *piece = o->in + o->at;

	*len = o->end - o->at < o->step ? o->end - o->at : o->step;
	o->at += *len;
	o->left--;
	return piece;
}

void gofi_offload_land(struct gofi_ep *ep, void *mem, uint64_t len, uint32_t head)
{
	struct gofi_offload *o = ep->off;

	if (!o)
		return;
	o->land = mem;
	o->land_len = len;
	o->land_at = 0;
	o->land_head = head;
}

// place copies a datagram into a buffer of size bytes, or splits it between that and the landing.
static void place(struct gofi_offload *o, char *slot, uint32_t size, const char *piece,
	uint32_t len, struct gofi_completion *out)
{
	out->len = len;
	if (!o->land || len <= o->land_head || len - o->land_head > o->land_len - o->land_at ||
	    o->land_head > size) {
		memcpy(slot, piece, len < size ? len : size);
		return;
	}
	memcpy(slot, piece, o->land_head);
	out->landed = len - o->land_head;
	out->landed_off = (uint32_t)o->land_at;
	memcpy(o->land + o->land_at, piece + o->land_head, out->landed);
	o->land_at += out->landed;
}

static void hand_out(struct gofi_ep *ep, int err, struct gofi_completion *out)
{
	struct gofi_offload *o = ep->off;
	const struct gofi_layout *lay = &ep->d->lay;
	uint32_t buf = o->posted[--o->count], len = 0;

	*out = (struct gofi_completion){
		.from = err ? FI_ADDR_NOTAVAIL : o->from, .buf = buf, .err = err, .op = GOFI_OP_RECV};
	if (!err) {
		char *piece = next_piece(o, &len);

		place(o, ep->d->arena + (size_t)buf * lay->stride + lay->headroom, lay->size, piece, len,
			out);
	}
	ep->d->use[buf] = 0;
	ep->mine[buf] = 0;
	ep->rx_out--;
}

int64_t gofi_offload_poll(struct gofi_ep *ep, struct gofi_completion *out, int max)
{
	struct gofi_offload *o = ep->off;
	int n = 0;

	while (n < max && o->count) {
		int64_t got = o->left ? 1 : fetch(ep);

		if (got > INT32_MAX)
			return got | n;
		if (!got)
			break;
		hand_out(ep, got == FETCH_DOUBT ? EIO : 0, &out[n++]);
	}
	return n;
}

int gofi_offload_ready(struct gofi_offload *o)
{
	uint32_t step;

	return o->count && (o->left || peek(o, &step) >= 0);
}

void gofi_offload_free(struct gofi_offload *o)
{
	if (!o)
		return;
	free(o->in);
	free(o->out);
	free(o->posted);
	free(o);
}

void gofi_offload_describe(const struct gofi_ep *ep, struct gofi_offload_info *out)
{
	const struct gofi_offload *o = ep->off;

	*out = (struct gofi_offload_info){0};
	if (o)
		*out = (struct gofi_offload_info){1, o->gso, o->gro, o->gso_err, o->lost};
}

// try_burst sends three pieces to the endpoint itself and wants exactly them back.
static int try_burst(struct gofi_ep *ep, fi_addr_t self, uint32_t size, int key)
{
	enum { PIECES = 3, PATIENCE_MS = 100 };
	struct gofi_offload *o = ep->off;
	uint32_t bytes = (PIECES - 1) * size + (size + 1) / 2, at = 0, len;
	char *want = o->out;
	int err = set_segment(o, size);

	if (err)
		return err;
	for (uint32_t i = 0; i < bytes; i++)
		want[i] = (char)(i * 7 + i / size + (uint32_t)key);
	if ((err = (int)-fi_inject(ep->ep, want, bytes, self)))
		return err;
	for (int i = 0; i < PIECES; i++) {
		struct pollfd p = {.fd = o->fd, .events = POLLIN};
		char *piece;

		while (!o->left) {
			int64_t got = fetch(ep);

			if (got == 1)
				break;
			if (got || poll(&p, 1, PATIENCE_MS) <= 0)
				return ETIMEDOUT;
		}
		piece = next_piece(o, &len);
		if (len != (i < PIECES - 1 ? size : bytes - at) || memcmp(piece, want + at, len))
			return EBADMSG;
		at += len;
	}
	return o->left ? EBADMSG : 0;
}

static int self_test(struct gofi_ep *ep, const void *name)
{
	fi_addr_t self = FI_ADDR_NOTAVAIL;
	int err = EADDRNOTAVAIL;

	if (fi_av_insert(ep->d->av, name, 1, &self, 0, NULL) != 1 || self == FI_ADDR_NOTAVAIL)
		return err;
	err = try_burst(ep, self, ep->d->lay.mtu, 1);
	if (!err)
		err = try_burst(ep, self, 8, 2);
	if (!err)
		err = set_segment(ep->off, 0);
	(void)fi_av_remove(ep->d->av, &self, 1, 0);
	return err;
}

int gofi_offload_start(struct gofi_ep *ep, int fd, uint32_t run_bytes, const void *name,
	struct gofi_fail *fail)
{
	struct gofi_offload *o = calloc(1, sizeof(*o));
	const struct gofi_layout *lay = &ep->d->lay;
	int err = ENOMEM;

	if (!o)
		return gofi_failed(fail, "calloc", -FI_ENOMEM);
	o->fd = fd;
	o->run_bytes = run_bytes;
	o->in = malloc(STAGE_BYTES);
	o->out = malloc(STAGE_BYTES);
	o->posted = calloc(ep->rx_depth, sizeof(*o->posted));
	ep->off = o;
	if (o->in && o->out && o->posted) {
		// Prefixes and contexts are other providers' affairs; and a send that completes later would
		// need the staged bytes until then.
		err = lay->tx_prefix || lay->rx_prefix || ep->d->ctx || lay->inject < lay->mtu ||
			run_bytes > STAGE_BYTES ? EOPNOTSUPP : 0;
	}
	if (!err) {
		o->gro = !set_option(o, UDP_GRO, 1);
		err = self_test(ep, name);
	}
	if (!err) {
		o->gso = 1;
		return 0;
	}
	// The staged receive may be posted, so the endpoint goes on with it, datagram by datagram.
	o->left = 0;
	o->gro = 0;
	(void)set_option(o, UDP_GRO, 0);
	(void)set_option(o, UDP_SEGMENT, 0);
	o->segment = 0;
	end_gso(o, err);
	if (!o->in || !o->out || !o->posted) {
		gofi_offload_free(o);
		ep->off = NULL;
	}
	return gofi_failed(fail, "offload self-test", -err);
}
