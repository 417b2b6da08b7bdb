//go:build linux && cgo

// batch.c: the calls that Go makes for each batch of datagrams, and before a sleep. Nothing here
// allocates, locks or reads a clock.
#include "internal.h"

#ifdef GOFI_HEADERS

int64_t gofi_post(struct gofi_ep *ep, const struct gofi_send *sends, int n)
{
	if (ep->off)
		return gofi_offload_post(ep, sends, n);
	return gofi_post_each(ep, sends, n);
}

int64_t gofi_recv(struct gofi_ep *ep, const uint32_t *bufs, int n)
{
	struct gofi_domain *d = ep->d;
	const struct gofi_layout *lay = &d->lay;
	// One byte more than the caller has: providers that cut silently then show it by the length.
	size_t len = (size_t)lay->rx_prefix + lay->size + 1;

	for (int i = 0; i < n; i++) {
		uint32_t buf = bufs[i];
		ssize_t ret;

		if (buf >= lay->count)
			return gofi_result(i, GOFI_BAD_BUF, GOFI_CALL_NONE);
		if (d->use[buf])
			return gofi_result(i, GOFI_BUSY_BUF, GOFI_CALL_NONE);
		if (ep->rx_out >= ep->rx_depth)
			return gofi_result(i, GOFI_AGAIN, GOFI_CALL_NONE);
		if (ep->off)
			ret = gofi_offload_recv(ep->off, buf);
		else
			ret = fi_recv(ep->ep, gofi_slot(d, buf) - lay->rx_prefix, len, d->desc, FI_ADDR_UNSPEC,
				gofi_context(d, buf));
		if (ret)
			return gofi_result(i, (int)-ret, GOFI_CALL_RECV);
		ep->rx_out++;
		ep->mine[buf] = GOFI_MINE_RECV;
		d->use[buf] = GOFI_USE_RECV;
	}
	return n;
}

// take_stash hands out send completions that were read before a sleep.
static int take_stash(struct gofi_ep *ep, struct gofi_completion *out, int max)
{
	int n = 0;

	while (n < max && ep->stash_count) {
		out[n++] = ep->stash[ep->stash_head];
		ep->stash_head = ep->stash_head + 1 < ep->tx_depth ? ep->stash_head + 1 : 0;
		ep->stash_count--;
	}
	return n;
}

// keep_broken makes a failure the answer of every later call: completions may have been lost with
// it, so the endpoint cannot be trusted to return its buffers any more.
static int64_t keep_broken(struct gofi_ep *ep, int64_t result)
{
	ep->broken = result & ~(int64_t)UINT32_MAX;
	return result;
}

// gofi_poll reads send completions first: they are few, while a flood of arrivals could keep them
// from a caller that polls for one at a time. It stops as soon as out is full, because each read of
// the udp provider's receive queue is a system call.
int64_t gofi_poll(struct gofi_ep *ep, struct gofi_completion *out, int max)
{
	int64_t got;
	int n = 0;

	if (ep->broken)
		return ep->broken;
	if (ep->stash_count)
		n = take_stash(ep, out, max);
	if (ep->tx_out && n < max) {
		got = gofi_read_queue(ep, ep->tx, GOFI_OP_SEND, out + n, max - n);
		if (got > INT32_MAX)
			return keep_broken(ep, got + n);
		n += (int)got;
	}
	if (ep->copied) {
		got = gofi_read_copies(ep);
		if (got)
			return keep_broken(ep, got + n);
	}
	if (ep->d->waiting)
		gofi_offer_copies(ep->d);
	if (n == max)
		return n;
	got = ep->off ? gofi_offload_poll(ep, out + n, max - n) :
		gofi_read_queue(ep, ep->rx, GOFI_OP_RECV, out + n, max - n);
	if (got > INT32_MAX)
		return keep_broken(ep, got + n);
	return n + got;
}

void gofi_progress(struct gofi_ep *ep)
{
	(void)fi_cq_read(ep->tx, NULL, 0);
	(void)fi_cq_read(ep->rx, NULL, 0);
	if (ep->d->waiting)
		gofi_offer_copies(ep->d);
}

// reap reads send completions into the stash.
static int reap(struct gofi_ep *ep)
{
	while (ep->tx_out) { // no more than tx_depth, with those in the stash: it cannot overflow
		uint32_t end = ep->stash_head + ep->stash_count;
		int64_t got;

		end = end < ep->tx_depth ? end : end - ep->tx_depth;
		got = gofi_read_queue(ep, ep->tx, GOFI_OP_SEND, &ep->stash[end], 1);
		if (got != 1) {
			if (got > INT32_MAX)
				keep_broken(ep, got);
			break;
		}
		ep->stash_count++;
	}
	if (ep->copied) {
		int64_t got = gofi_read_copies(ep);

		if (got)
			keep_broken(ep, got);
	}
	return ep->stash_count > 0 || ep->broken;
}

void gofi_wait_socket(struct gofi_ep *ep)
{
	ep->socket = 1;
}

int64_t gofi_before_sleep(struct gofi_domain *d)
{
	int flags = d->waiting || d->copied > d->left ? GOFI_SLEEP_SHORT : 0;

	for (struct gofi_ep *ep = d->eps; ep; ep = ep->next) {
		struct fid *fid = &ep->rx->fid;
		int ret;

		if (reap(ep))
			return GOFI_SLEEP_READY;
		if (ep->tx_out)
			flags |= GOFI_SLEEP_SHORT;
		if (ep->off && gofi_offload_ready(ep->off))
			return GOFI_SLEEP_READY;
		if (ep->socket) // fi_trywait would read it for nothing: its queue holds no unread completion
			continue;
		if (ep->wait_fd < 0) {
			flags |= GOFI_SLEEP_BLIND;
			continue;
		}
		ret = fi_trywait(d->fabric, &fid, 1);
		if (ret == -FI_EAGAIN)
			return GOFI_SLEEP_READY;
		if (ret)
			return gofi_result(0, -ret, GOFI_CALL_TRYWAIT);
	}
	return flags;
}

#endif
