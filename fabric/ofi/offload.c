//go:build linux && cgo

// offload.c: segmentation offload on the udp provider's own socket: its start, and sending. A run
// of equal datagrams for one peer is one fi_sendmsg with a place for each part, which the kernel
// puts together and cuts (UDP_SEGMENT). The provider passes the places on, however many there are;
// that it does is what the test at the start shows. Receiving is in offload_recv.c. Nothing here
// allocates, locks or reads a clock once it has started.
#include "offload.h"

#ifdef GOFI_HEADERS

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

// set_segment has the kernel cut what is longer than bytes from now on; 0: nothing.
static int set_segment(struct gofi_offload *o, uint32_t bytes)
{
	int err = o->segment == bytes ? 0 : gofi_offload_option(o, UDP_SEGMENT, (int)bytes);

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

// lay_run names the parts of a run's datagrams in out and returns the number of datagrams: of equal
// length but the last, which may be shorter, to one peer.
static int lay_run(struct gofi_ep *ep, const struct gofi_send *sends, int n, struct fi_msg *msg,
	uint32_t *segment)
{
	struct gofi_offload *o = ep->off;
	uint32_t bytes = 0, step = 0, len = 0;
	struct iovec *v = o->out;
	int i;

	for (i = 0; i < n && i < RUN_SEGMENTS && len == step; i++) {
		const struct gofi_send *s = &sends[i];
		struct gofi_parts p;

		if (s->to != sends->to || gofi_find_parts(ep->d, s, &p))
			break;
		len = p.head_len + p.tail_len;
		if (i == 0) {
			step = len;
			msg->addr = p.to;
		}
		if (len == 0 || len > step || bytes + len > o->run_bytes)
			break;
		*v++ = (struct iovec){p.head, p.head_len};
		if (p.tail_len)
			*v++ = (struct iovec){p.tail, p.tail_len};
		bytes += len;
	}
	msg->msg_iov = o->out;
	msg->iov_count = (size_t)(v - o->out);
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

// send_run sends the parts in out and takes the completion of that, which is there at once.
static ssize_t send_run(struct gofi_ep *ep, const struct fi_msg *msg)
{
	struct fi_cq_msg_entry entry;
	ssize_t ret = fi_sendmsg(ep->ep, msg, 0);

	if (!ret)
		(void)fi_cq_read(ep->tx, &entry, 1);
	return ret;
}

// post_run posts the first sends as one if they are a run, and returns their number; 0 if they are
// none, or cannot go as one. *run_err is why, if that may be due to the offload.
static int64_t post_run(struct gofi_ep *ep, const struct gofi_send *sends, int n, int *run_err)
{
	struct gofi_offload *o = ep->off;
	struct fi_msg msg = {.context = o};
	uint32_t segment;
	ssize_t ret;
	int run, err;

	if (!o->gso || !pairs(sends, n))
		return 0;
	run = lay_run(ep, sends, n, &msg, &segment);
	if (run < 2)
		return 0;
	err = set_segment(o, segment);
	if (err) {
		end_gso(o, err);
		return 0;
	}
	if (!(ret = send_run(ep, &msg)))
		return run;
	if (ret == -FI_EAGAIN)
		return gofi_result(0, GOFI_AGAIN, GOFI_CALL_SENDMSG);
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

void gofi_offload_free(struct gofi_offload *o)
{
	if (!o)
		return;
	free(o->stage);
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

// take_message waits until something is staged: 0, or the errno of why nothing will be.
static int take_message(struct gofi_ep *ep)
{
	enum { PATIENCE_MS = 100 };
	struct gofi_offload *o = ep->off;
	struct pollfd p = {.fd = o->fd, .events = POLLIN};

	while (!o->left) {
		int64_t got = gofi_offload_stage(ep);
		int ready;

		if (got == 1)
			break;
		ready = got ? 0 : poll(&p, 1, PATIENCE_MS);
		if (!ready || (ready < 0 && errno != EINTR))
			return ETIMEDOUT;
	}
	return 0;
}

// take_piece wants the next piece of a burst. A message that does not begin with it is somebody
// else's, who knew the address before, and is dropped.
static int take_piece(struct gofi_ep *ep, const char *want, uint32_t bytes)
{
	struct gofi_offload *o = ep->off;
	uint32_t len;

	for (int i = 0; i < DRAIN_MAX; i++) {
		int begun = o->left > 0, err = take_message(ep);
		const char *piece;

		if (err)
			return err;
		piece = gofi_offload_piece(o, &len);
		if (len == bytes && !memcmp(piece, want, bytes))
			return 0;
		if (begun)
			break;
		o->left = 0;
	}
	return EBADMSG;
}

// try_burst sends three pieces, of two parts each, to the endpoint itself, and wants exactly those
// pieces back.
static int try_burst(struct gofi_ep *ep, fi_addr_t self, uint32_t size, int key)
{
	enum { PIECES = 3 };
	struct gofi_offload *o = ep->off;
	struct fi_msg msg = {.msg_iov = o->out, .iov_count = 2 * PIECES, .addr = self, .context = o};
	uint32_t bytes = (PIECES - 1) * size + (size + 1) / 2, at = 0, len;
	char *want = o->stage; // receives go into the other half
	int err = set_segment(o, size);

	if (err)
		return err;
	for (uint32_t i = 0; i < bytes; i++)
		want[i] = (char)(i * 7 + i / size + (uint32_t)key);
	for (uint32_t i = 0; i < 2 * PIECES; i++, at += len) {
		len = i + 1 < 2 * PIECES ? bytes / (2 * PIECES) : bytes - at;
		o->out[i] = (struct iovec){want + at, len};
	}
	if ((err = (int)-send_run(ep, &msg)))
		return err;
	for (at = 0; at < bytes && !err; at += len) {
		len = size < bytes - at ? size : bytes - at;
		err = take_piece(ep, want + at, len);
	}
	return !err && o->left ? EBADMSG : err;
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

// start sets the options and tries them out. Prefixes and contexts are other providers' affairs.
static int start(struct gofi_ep *ep, const void *name)
{
	const struct gofi_layout *lay = &ep->d->lay;
	struct gofi_offload *o = ep->off;

	if (lay->tx_prefix || lay->rx_prefix || ep->d->ctx || ep->d->local_mr ||
	    lay->inject < lay->mtu || o->run_bytes > STAGE_BYTES || lay->mtu > STAGE_BYTES / 3)
		return EOPNOTSUPP;
	o->gro = !gofi_offload_option(o, UDP_GRO, 1);
	gofi_offload_narrow(ep);
	o->burst = 1;
	return self_test(ep, name);
}

int gofi_offload_start(struct gofi_ep *ep, int fd, uint32_t run_bytes, const void *name,
	struct gofi_fail *fail)
{
	struct gofi_offload *o = calloc(1, sizeof(*o));
	int err = ENOMEM;

	if (!o)
		return gofi_failed(fail, "calloc", -FI_ENOMEM);
	o->fd = fd;
	o->run_bytes = run_bytes;
	o->stage = malloc(2 * STAGE_BYTES);
	o->posted = calloc(ep->rx_depth, sizeof(*o->posted));
	ep->off = o;
	if (o->stage && o->posted)
		err = start(ep, name);
	if (!err) {
		o->gso = 1;
		return 0;
	}
	// The endpoint goes on as if offload had not been asked for.
	(void)gofi_offload_option(o, UDP_GRO, 0);
	(void)gofi_offload_option(o, UDP_SEGMENT, 0);
	gofi_offload_drain(o);
	gofi_offload_free(o);
	ep->off = NULL;
	return gofi_failed(fail, "offload self-test", -err);
}

#endif
