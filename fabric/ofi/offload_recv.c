//go:build linux && cgo

// offload_recv.c: receiving what the kernel has coalesced (UDP_GRO), many datagrams by one call.
// Nothing here allocates, locks or reads a clock.
//
// Where to cut is never guessed: the size of the pieces comes in a control message, and libfabric
// asks for none; nor would its receive take a place for each piece. So no receive is posted there,
// and the socket is read here. Most often the pieces are as long as those before, so that each
// stands in its buffer at once, or its head there and the rest in the landing; else they are put
// together in stage, and copied apart.
#include "offload.h"

#ifdef GOFI_HEADERS

#include <netinet/in.h>
#include <string.h>

enum {
	BURST_MAX = 16,
	WORTH_BYTES = 4 << 10, // shorter runs are copied cheaply
	CALM_SINGLES = 16      // so many single datagrams end the expectation of runs
};

// message is one message of the socket.
struct message {
	uint32_t len, step; // step: the size of the pieces
};

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

void gofi_offload_narrow(struct gofi_ep *ep)
{
	ep->off->wide = 1;
	ep->off->stride = ep->d->lay.size;
}

int gofi_offload_recv(struct gofi_offload *o, uint32_t buf)
{
	o->posted[o->count++] = buf; // no more than rx_depth: gofi_recv has counted
	return 0;
}

void gofi_offload_land(struct gofi_ep *ep, void *mem, uint64_t len, uint32_t head)
{
	struct gofi_offload *o = ep->off;

	if (!o)
		return;
	o->land = mem;
	o->land_len = mem ? len : 0;
	o->land_at = 0;
	o->land_head = head;
}

// split_of is how many of a receive's buffers get heads alone. A single datagram is copied as fast.
static uint32_t split_of(const struct gofi_offload *o, uint32_t wide)
{
	uint64_t fit;

	if (!o->land || wide == 1 || o->stride <= o->land_head)
		return 0;
	fit = (o->land_len - o->land_at) / (o->stride - o->land_head);
	return fit < wide ? (uint32_t)fit : wide;
}

// lay_out names the places of the next message, and returns their number.
static int lay_out(struct gofi_ep *ep, uint32_t wide)
{
	struct gofi_offload *o = ep->off;
	struct iovec *v = o->in;
	uint32_t i = 0, top = o->count, body = o->stride - o->land_head;
	char *land = o->land + o->land_at;

	o->split = split_of(o, wide);
	for (; i < o->split; i++, land += body) {
		*v++ = (struct iovec){gofi_slot(ep->d, o->posted[--top]), o->land_head};
		*v++ = (struct iovec){land, body};
	}
	for (; i < wide; i++)
		*v++ = (struct iovec){gofi_slot(ep->d, o->posted[--top]), o->stride};
	*v++ = (struct iovec){o->stage + STAGE_BYTES, STAGE_BYTES};
	return (int)(v - o->in);
}

// unread is what an errno of the socket means to a caller.
static int64_t unread(int err)
{
	switch (err) {
	case EBADF:
	case ENOTSOCK:
	case EFAULT:
	case EINVAL:
		return gofi_result(0, err, GOFI_CALL_RECVMSG);
	}
	return 0; // none, or an error that something sent has met on its way
}

enum { READ_DOUBT = 2 };

// read_one reads one message into the places laid out: 1, 0 for none, READ_DOUBT for one that
// cannot be cut, or the form of gofi_result.
static int64_t read_one(struct gofi_ep *ep, int places, struct message *m)
{
	struct gofi_offload *o = ep->off;
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct sockaddr_in6 name;
	struct msghdr msg = {.msg_iov = o->in, .msg_iovlen = (size_t)places};
	struct cmsghdr *c;
	ssize_t len;
	int size = 0;

	if (o->gro) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	if (ep->source) {
		msg.msg_name = &name;
		msg.msg_namelen = sizeof(name);
	}
	len = recvmsg(o->fd, &msg, MSG_DONTWAIT);
	if (len < 0)
		return unread(errno);
	o->from = ep->source ? gofi_addr_named(ep->d, &name) : FI_ADDR_NOTAVAIL;
	if (o->gro && msg.msg_flags & MSG_CTRUNC)
		return READ_DOUBT;
	c = o->gro ? CMSG_FIRSTHDR(&msg) : NULL;
	if (c && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
		memcpy(&size, CMSG_DATA(c), sizeof(size));
	m->len = (uint32_t)len;
	m->step = size > 0 && size < len ? (uint32_t)size : m->len;
	return 1;
}

void gofi_offload_drain(struct gofi_offload *o)
{
	struct msghdr none = {0};

	for (int i = 0; i < DRAIN_MAX && recvmsg(o->fd, &none, MSG_DONTWAIT) >= 0; i++)
		o->lost++;
}

// end_gro ends coalescing, and drops all that may have been coalesced before.
static void end_gro(struct gofi_ep *ep)
{
	struct gofi_offload *o = ep->off;

	o->gro = 0;
	(void)gofi_offload_option(o, UDP_GRO, 0);
	gofi_offload_drain(o);
	gofi_offload_narrow(ep);
}

// give hands the buffer on top of the stack to the caller.
static uint32_t give(struct gofi_ep *ep, struct gofi_completion *out, int err)
{
	struct gofi_offload *o = ep->off;
	uint32_t buf = o->posted[--o->count];

	*out = (struct gofi_completion){
		.from = err ? FI_ADDR_NOTAVAIL : o->from, .buf = buf, .err = err, .op = GOFI_OP_RECV};
	ep->d->use[buf] = 0;
	ep->mine[buf] = 0;
	ep->rx_out--;
	return buf;
}

char *gofi_offload_piece(struct gofi_offload *o, uint32_t *len)
{
	char *piece = o->stage + o->at;

	*len = least(o->end - o->at, o->step);
	o->at += *len;
	o->left--;
	return piece;
}

// give_staged hands out the next piece in stage, with its rest in the landing if that holds it.
static void give_staged(struct gofi_ep *ep, struct gofi_completion *out)
{
	struct gofi_offload *o = ep->off;
	uint32_t len, size = ep->d->lay.size, head = o->land_head;
	const char *piece = gofi_offload_piece(o, &len);
	char *to = gofi_slot(ep->d, give(ep, out, 0));

	out->len = len;
	if (!o->land || len <= head || len - head > o->land_len - o->land_at || head > size) {
		memcpy(to, piece, least(len, size));
		return;
	}
	memcpy(to, piece, head);
	out->landed = len - head;
	out->landed_off = (uint32_t)o->land_at;
	memcpy(o->land + o->land_at, piece + head, len - head);
	o->land_at += len - head;
}

// stage_rest makes pieces of what stands in stage from at on.
static void stage_rest(struct gofi_offload *o, uint32_t at, uint32_t len, uint32_t step)
{
	o->at = at;
	o->end = at + len;
	o->step = step;
	o->left = len ? (len + step - 1) / step : 1;
}

// gather puts the message together in stage that stands in wide buffers and behind them.
static void gather(struct gofi_ep *ep, uint32_t wide, const struct message *m)
{
	struct gofi_offload *o = ep->off;
	uint32_t inside = least(m->len, wide * o->stride), done = 0;
	char *to = o->stage + STAGE_BYTES - inside;
	const struct iovec *v = o->in;

	while (done < inside) {
		uint32_t n = least(inside - done, (uint32_t)v->iov_len);

		memcpy(to + done, v->iov_base, n);
		done += n;
		v++;
	}
	stage_rest(o, STAGE_BYTES - inside, m->len, m->step);
}

// give_placed hands out the pieces of a message that stand in their buffers, and returns their
// number.
static int give_placed(struct gofi_ep *ep, uint32_t wide, const struct message *m,
	struct gofi_completion *out)
{
	struct gofi_offload *o = ep->off;
	uint32_t rest = m->len, n = 0;

	for (; n < wide && (rest || n == 0); n++) {
		uint32_t len = least(rest, m->step);

		(void)give(ep, &out[n], 0);
		out[n].len = len;
		rest -= len;
		if (n < o->split && len > o->land_head) {
			out[n].landed = len - o->land_head;
			out[n].landed_off = (uint32_t)o->land_at;
			o->land_at += out[n].landed;
		}
	}
	if (rest)
		stage_rest(o, STAGE_BYTES, rest, m->step);
	return (int)n;
}

// unsplit puts a datagram that is no part of a run, by its length, into its buffer whole.
static void unsplit(struct gofi_offload *o, uint32_t len)
{
	uint32_t head = o->land_head;

	if (o->split && len > head)
		memcpy((char *)o->in[0].iov_base + head, o->in[1].iov_base, len - head);
	o->split = 0;
}

// learn makes the next receives as this message wants them.
static void learn(struct gofi_ep *ep, const struct message *m)
{
	struct gofi_offload *o = ep->off;
	uint32_t step = m->step;

	if (step == m->len) {
		if (o->wide > 1 && (step > o->stride || ++o->singles >= CALM_SINGLES))
			gofi_offload_narrow(ep);
		return;
	}
	o->singles = 0;
	if (m->len < WORTH_BYTES || step > ep->d->lay.size || (step == o->stride && o->wide > 1))
		return;
	o->stride = step;
	o->wide = least((STAGE_BYTES - 1) / step + 1, ROW_SLOTS);
}

// receive reads one message and hands out what of it there is room for: the number of completions,
// 0 for no message, or the form of gofi_result.
static int64_t receive(struct gofi_ep *ep, struct gofi_completion *out, int max)
{
	struct gofi_offload *o = ep->off;
	uint32_t wide = least(o->wide, least(o->count, (uint32_t)max)), stride = o->stride;
	struct message m;
	int64_t got = read_one(ep, lay_out(ep, wide), &m);
	int n = 0, single;

	if (got == READ_DOUBT) {
		o->lost++;
		end_gro(ep);
		(void)give(ep, out, EIO);
		return 1;
	}
	if (got != 1)
		return got;
	single = m.step == m.len;
	if (single ? m.len <= stride || stride == ep->d->lay.size : m.step == stride) {
		if (single && m.len != stride)
			unsplit(o, least(m.len, stride));
		n = give_placed(ep, wide, &m, out);
	} else {
		gather(ep, wide, &m);
	}
	while (n < max && o->left && o->count)
		give_staged(ep, &out[n++]);
	learn(ep, &m);
	return n;
}

int64_t gofi_offload_poll(struct gofi_ep *ep, struct gofi_completion *out, int max)
{
	struct gofi_offload *o = ep->off;
	int n = 0;

	// What is in stage goes out before the next message is read into it, or there is no room at all.
	while (n < max && o->left && o->count)
		give_staged(ep, &out[n++]);
	// A further message is read only where it need not be staged for want of room.
	for (uint32_t i = 0; i < o->burst && n < max && o->count; i++) {
		int64_t got;

		if (n > 0 && (uint32_t)(max - n) < o->wide)
			return n;
		got = receive(ep, &out[n], max - n);
		if (got > INT32_MAX)
			return got | n;
		if (!got) {
			o->burst = 1;
			return n;
		}
		n += (int)got;
	}
	o->burst = least(2 * o->burst, BURST_MAX);
	return n;
}

int64_t gofi_offload_stage(struct gofi_ep *ep)
{
	struct message m;
	int64_t got = read_one(ep, lay_out(ep, 0), &m);

	if (got == 1)
		stage_rest(ep->off, STAGE_BYTES, m.len, m.step);
	return got;
}

int gofi_offload_ready(struct gofi_offload *o)
{
	return o->count && o->left;
}

#endif
