//go:build linux && cgo

// domain.c: opening and closing a domain with its arena and address vector.
#include "internal.h"

#ifdef GOFI_HEADERS

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// How many peers the address vector is told to expect. All providers grow beyond it.
enum { EXPECTED_PEERS = 256 };

static int map_arena(struct gofi_domain *d, struct gofi_fail *fail)
{
	size_t bytes = (size_t)d->lay.count * d->lay.stride;
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return gofi_failed(fail, "mmap", -FI_ENOMEM);
	// Huge pages save TLB misses where the system gives them; without them nothing else changes.
	(void)madvise(mem, bytes, MADV_HUGEPAGE);
	d->arena = mem;
	d->arena_bytes = bytes;
	return 0;
}

static int alloc_tables(struct gofi_domain *d, struct gofi_fail *fail)
{
	uint64_t mode = d->info->mode | d->info->tx_attr->mode | d->info->rx_attr->mode;

	d->use = calloc(d->lay.count, sizeof(*d->use));
	if (!d->use)
		return gofi_failed(fail, "calloc", -FI_ENOMEM);
	if (!(mode & (FI_CONTEXT | FI_CONTEXT2)))
		return 0;
	d->ctx = calloc(d->lay.count, sizeof(*d->ctx));
	return d->ctx ? 0 : gofi_failed(fail, "calloc", -FI_ENOMEM);
}

// open_av takes the provider's own table type; some reject "unspecified", others know only one.
static int open_av(struct gofi_domain *d, struct gofi_fail *fail)
{
	struct fi_av_attr attr = {.count = EXPECTED_PEERS};
	int ret;

	attr.type = d->info->domain_attr->av_type;
	if (attr.type == FI_AV_UNSPEC)
		attr.type = FI_AV_TABLE;
	ret = fi_av_open(d->domain, &attr, &d->av, NULL);
	if (ret) {
		d->av = NULL;
		attr.type = attr.type == FI_AV_TABLE ? FI_AV_MAP : FI_AV_TABLE;
		ret = fi_av_open(d->domain, &attr, &d->av, NULL);
	}
	if (!ret)
		return 0;
	d->av = NULL;
	return gofi_failed(fail, "fi_av_open", ret);
}

// probe_wait learns whether a completion queue with a descriptor can be had: no attribute tells.
static void probe_wait(struct gofi_domain *d)
{
	struct fi_cq_attr attr = {.size = 1, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
	struct fid_cq *cq = NULL;

	if (fi_cq_open(d->domain, &attr, &cq, NULL))
		return;
	d->can_wait = 1;
	(void)fi_close(&cq->fid);
}

static int open_objects(struct gofi_domain *d, struct gofi_fail *fail)
{
	int ret = gofi_lib.fabric(d->info->fabric_attr, &d->fabric, NULL);

	if (ret) {
		d->fabric = NULL;
		return gofi_failed(fail, "fi_fabric", ret);
	}
	// The udp provider tells sources if the domain, not the endpoint, was opened for that. It costs
	// nothing that could be measured there.
	ret = -FI_ENODATA;
	if (d->sourced)
		ret = fi_domain(d->fabric, d->sourced, &d->domain, NULL);
	if (ret) {
		gofi_freeinfo(d->sourced);
		d->sourced = NULL;
		ret = fi_domain(d->fabric, d->info, &d->domain, NULL);
	}
	if (ret) {
		d->domain = NULL;
		return gofi_failed(fail, "fi_domain", ret);
	}
	if (open_av(d, fail) || map_arena(d, fail) || alloc_tables(d, fail))
		return fail->code;
	d->local_mr = (d->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
	if (d->local_mr) {
		if (gofi_reg_mr(d, d->arena, d->arena_bytes, FI_SEND | FI_RECV, &d->mr, fail))
			return fail->code;
		d->desc = fi_mr_desc(d->mr);
	}
	probe_wait(d);
	return 0;
}

static void domain_free(struct gofi_domain *d, struct gofi_fail *fail)
{
	gofi_close_fid(d->av ? &d->av->fid : NULL, "fi_close(av)", fail);
	for (uint32_t i = 0; i < d->region_cap; i++)
		gofi_close_fid(d->regions[i].mr ? &d->regions[i].mr->fid : NULL, "fi_close(mr)", fail);
	gofi_close_fid(d->mr ? &d->mr->fid : NULL, "fi_close(mr)", fail);
	gofi_close_fid(d->domain ? &d->domain->fid : NULL, "fi_close(domain)", fail);
	gofi_close_fid(d->fabric ? &d->fabric->fid : NULL, "fi_close(fabric)", fail);
	if (d->arena)
		(void)munmap(d->arena, d->arena_bytes);
	gofi_free_copies(d);
	gofi_freeinfo(d->info);
	gofi_freeinfo(d->sourced);
	free(d->ctx);
	free(d->use);
	free(d->peers);
	free(d->regions);
	free(d->back.entries);
	free(d->named.entries);
	free(d);
}

// The shm provider maps the memory of an endpoint in the same process where that has it, and unmaps
// it when it closes: the next send to it from that process ends the process. So what is closed here
// lives on, silent, until the last domain of the provider in this process closes. Peers in other
// processes have mappings of their own.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t living;          // domains that are open
static struct gofi_domain *gone; // those that were closed

static void linger_open(struct gofi_domain *d)
{
	const char *prov = d->info->fabric_attr->prov_name;

	if (!prov || strcmp(prov, "shm"))
		return;
	d->lingers = 1;
	pthread_mutex_lock(&lock);
	living++;
	pthread_mutex_unlock(&lock);
}

static void linger_close(struct gofi_domain *d, struct gofi_fail *fail)
{
	struct gofi_domain *all = NULL;

	// Nothing reads what stands there any more. The mapping stays, for what was posted.
	(void)madvise(d->arena, d->arena_bytes, MADV_DONTNEED);
	pthread_mutex_lock(&lock);
	d->next = gone;
	gone = d;
	if (--living == 0) {
		all = gone;
		gone = NULL;
	}
	pthread_mutex_unlock(&lock);
	// Endpoints reach into each other's memory, so all of them go first.
	for (struct gofi_domain *i = all; i; i = i->next) {
		while (i->dead) {
			struct gofi_ep *ep = i->dead;

			i->dead = ep->next;
			gofi_ep_free(ep, fail);
		}
	}
	while (all) {
		struct gofi_domain *i = all;

		all = i->next;
		domain_free(i, fail);
	}
}

struct gofi_domain *gofi_domain_open(const struct fi_info *info, const struct fi_info *sourced,
	const struct gofi_layout *lay, struct gofi_fail *fail)
{
	struct gofi_domain *d = calloc(1, sizeof(*d));
	struct gofi_fail ignored = {0};

	if (!d) {
		gofi_failed(fail, "calloc", -FI_ENOMEM);
		return NULL;
	}
	d->lay = *lay;
	d->info = gofi_lib.dupinfo(info);
	if (sourced)
		d->sourced = gofi_lib.dupinfo(sourced);
	if (!d->info || (sourced && !d->sourced))
		gofi_failed(fail, "fi_dupinfo", -FI_ENOMEM);
	else if (!open_objects(d, fail)) {
		linger_open(d);
		return d;
	}
	gofi_domain_close(d, &ignored);
	return NULL;
}

// gofi_domain_close releases everything, whatever fails on the way: a descriptor or a mapping that
// outlived its owner could not be released by anybody.
void gofi_domain_close(struct gofi_domain *d, struct gofi_fail *fail)
{
	while (d->eps)
		gofi_ep_close(d->eps, fail);
	if (d->lingers)
		linger_close(d, fail);
	else
		domain_free(d, fail);
}

void *gofi_arena(struct gofi_domain *d)
{
	return d->arena;
}

uint64_t gofi_arena_bytes(struct gofi_domain *d)
{
	return d->arena_bytes;
}

int gofi_can_wait(struct gofi_domain *d)
{
	return d->can_wait;
}

int gofi_has_source(struct gofi_domain *d)
{
	return d->sourced != NULL;
}

#endif
