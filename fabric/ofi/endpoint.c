//go:build linux && cgo

// endpoint.c: opening and closing an endpoint with its two completion queues.
#include "internal.h"

#ifdef GOFI_HEADERS

#include <stdlib.h>
#include <string.h>

static int open_cq(struct gofi_domain *d, size_t size, int wait, struct fid_cq **cq,
	struct gofi_fail *fail)
{
	struct fi_cq_attr attr = {.size = size, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
	int ret;

	if (wait) {
		attr.wait_obj = FI_WAIT_FD;
		if (!fi_cq_open(d->domain, &attr, cq, NULL))
			return 0;
		attr.wait_obj = FI_WAIT_NONE; // the endpoint is usable without, only not sleepable
	}
	ret = fi_cq_open(d->domain, &attr, cq, NULL);
	if (!ret)
		return 0;
	*cq = NULL;
	return gofi_failed(fail, "fi_cq_open", ret);
}

// open_fid opens the endpoint itself, with FI_SOURCE if that was asked for and can be had.
static int open_fid(struct gofi_ep *ep, const struct gofi_ep_cfg *cfg, struct gofi_fail *fail)
{
	struct gofi_domain *d = ep->d;
	int ret = -FI_ENOMEM;

	for (int source = cfg->source && d->sourced ? 1 : 0; source >= 0; source--) {
		struct fi_info *info = gofi_lib.dupinfo(source ? d->sourced : d->info);

		if (!info)
			break;
		info->tx_attr->size = cfg->tx_depth;
		info->rx_attr->size = cfg->rx_depth;
		if (!source) { // providers return it unasked; the look-up per packet would be for nothing
			info->caps &= ~FI_SOURCE;
			info->rx_attr->caps &= ~FI_SOURCE;
		}
		ret = fi_endpoint(d->domain, info, &ep->ep, NULL);
		// shm's handlers, which come with its first endpoint, unlink the names of endpoints. There is
		// no name yet.
		(void)gofi_signals_restore();
		gofi_lib.freeinfo(info);
		if (!ret) {
			ep->source = source;
			return 0;
		}
		ep->ep = NULL;
	}
	return gofi_failed(fail, "fi_endpoint", ret);
}

static int bind_and_enable(struct gofi_ep *ep, struct gofi_fail *fail)
{
	int ret = fi_ep_bind(ep->ep, &ep->d->av->fid, 0);

	// The queue with a descriptor goes first: at a first one without, rxd forgets to ask for its own,
	// and adds descriptor 0 to what is waited for, which cannot be done if that is a file.
	if (!ret)
		ret = fi_ep_bind(ep->ep, &ep->rx->fid, FI_RECV);
	if (!ret)
		ret = fi_ep_bind(ep->ep, &ep->tx->fid, FI_TRANSMIT);
	if (ret)
		return gofi_failed(fail, "fi_ep_bind", ret);
	ret = fi_enable(ep->ep);
	return ret ? gofi_failed(fail, "fi_enable", ret) : 0;
}

static int alloc_ep(struct gofi_ep *ep, struct gofi_fail *fail)
{
	const struct gofi_layout *lay = &ep->d->lay;

	ep->mine = calloc(lay->count, sizeof(*ep->mine));
	ep->stash = calloc(ep->tx_depth, sizeof(*ep->stash));
	ep->bounce = calloc(1, (size_t)lay->tx_prefix + lay->inject + 1);
	if (!ep->mine || !ep->stash || !ep->bounce)
		return gofi_failed(fail, "calloc", -FI_ENOMEM);
	return 0;
}

static int read_name(struct gofi_ep *ep, struct gofi_ep_info *out, struct gofi_fail *fail)
{
	size_t len = sizeof(out->name);
	int ret = fi_getname(&ep->ep->fid, out->name, &len);

	if (ret == -FI_ETOOSMALL || len > sizeof(out->name))
		return gofi_failed(fail, "fi_getname", -GOFI_LONG_NAME);
	if (ret)
		return gofi_failed(fail, "fi_getname", ret);
	out->name_len = (uint32_t)len;
	return 0;
}

struct gofi_ep *gofi_ep_open(struct gofi_domain *d, const struct gofi_ep_cfg *cfg,
	struct gofi_ep_info *out, struct gofi_fail *fail)
{
	struct gofi_ep *ep = calloc(1, sizeof(*ep));
	struct gofi_fail ignored = {0};

	if (!ep) {
		gofi_failed(fail, "calloc", -FI_ENOMEM);
		return NULL;
	}
	ep->d = d;
	ep->tx_depth = cfg->tx_depth;
	ep->rx_depth = cfg->rx_depth;
	ep->wait_fd = -1;
	ep->next = d->eps;
	d->eps = ep;
	// Receives never overrun their queue because no more of them are posted than it has entries
	// (udp of libfabric 1.17 overwrites entries of a full one).
	if (!alloc_ep(ep, fail) && !open_fid(ep, cfg, fail) &&
	    !open_cq(d, cfg->tx_depth, 0, &ep->tx, fail) &&
	    !open_cq(d, cfg->rx_depth, cfg->wait, &ep->rx, fail) &&
	    !bind_and_enable(ep, fail) && !read_name(ep, out, fail)) {
		// Usnic knows its descriptor only after the bind.
		if (!cfg->wait || fi_control(&ep->rx->fid, FI_GETWAIT, &ep->wait_fd))
			ep->wait_fd = -1;
		out->wait_fd = ep->wait_fd;
		out->source = ep->source;
		return ep;
	}
	gofi_ep_close(ep, &ignored);
	return NULL;
}

// release_buffers gives back what was posted: none of it completes any more.
static void release_buffers(struct gofi_ep *ep)
{
	for (uint32_t i = 0; ep->mine && i < ep->d->lay.count; i++) {
		if (ep->mine[i] == GOFI_MINE_RECV)
			ep->d->use[i] = 0;
		else
			ep->d->use[i] -= ep->mine[i];
	}
}

void gofi_ep_close(struct gofi_ep *ep, struct gofi_fail *fail)
{
	struct gofi_domain *d = ep->d;
	struct gofi_ep **link = &d->eps;

	while (*link && *link != ep)
		link = &(*link)->next;
	if (*link)
		*link = ep->next;
	if (!d->lingers) {
		gofi_ep_free(ep, fail);
		return;
	}
	release_buffers(ep);
	ep->next = d->dead;
	d->dead = ep;
}

void gofi_ep_free(struct gofi_ep *ep, struct gofi_fail *fail)
{
	int lingered = ep->d->lingers;

	gofi_drop_copies(ep->d, NULL, ep);
	gofi_close_fid(ep->ep ? &ep->ep->fid : NULL, "fi_close(ep)", fail);
	gofi_close_fid(ep->rx ? &ep->rx->fid : NULL, "fi_close(cq)", fail);
	gofi_close_fid(ep->tx ? &ep->tx->fid : NULL, "fi_close(cq)", fail);
	if (!lingered)
		release_buffers(ep);
	free(ep->mine);
	free(ep->stash);
	free(ep->bounce);
	gofi_offload_free(ep->off);
	ep->d->copied -= ep->copied; // they never complete
	free(ep);
}

#endif
