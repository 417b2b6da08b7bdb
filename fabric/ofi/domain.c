//go:build linux && cgo

// domain.c: opening and closing a domain, its address vector and its regions.
#include "internal.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// How many peers the address vector is told to expect. All providers grow beyond it.
enum { EXPECTED_PEERS = 256 };

void gofi_close_fid(struct fid *fid, const char *op, struct gofi_fail *fail)
{
	int ret = fid ? fi_close(fid) : 0;

	if (ret && !fail->code)
		gofi_failed(fail, op, ret);
}

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

static int reg_mr(struct gofi_domain *d, void *base, uint64_t len, uint64_t access,
	struct fid_mr **mr, struct gofi_fail *fail)
{
	// Keys are unique because providers without FI_MR_PROV_KEY take the caller's.
	int ret = fi_mr_reg(d->domain, base, len, access, 0, ++d->next_key, 0, mr, NULL);

	if (!ret)
		return 0;
	*mr = NULL;
	return gofi_failed(fail, "fi_mr_reg", ret);
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
	int ret = fi_fabric(d->info->fabric_attr, &d->fabric, NULL);

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
		if (reg_mr(d, d->arena, d->arena_bytes, FI_SEND | FI_RECV, &d->mr, fail))
			return fail->code;
		d->desc = fi_mr_desc(d->mr);
	}
	probe_wait(d);
	return 0;
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
	d->info = fi_dupinfo(info);
	if (sourced)
		d->sourced = fi_dupinfo(sourced);
	if (!d->info || (sourced && !d->sourced))
		gofi_failed(fail, "fi_dupinfo", -FI_ENOMEM);
	else if (!open_objects(d, fail)) {
		gofi_linger_open(d);
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
		gofi_linger_close(d, fail);
	else
		gofi_domain_free(d, fail);
}

void gofi_domain_free(struct gofi_domain *d, struct gofi_fail *fail)
{
	gofi_close_fid(d->av ? &d->av->fid : NULL, "fi_close(av)", fail);
	for (uint32_t i = 0; i < d->region_cap; i++)
		gofi_close_fid(d->regions[i].mr ? &d->regions[i].mr->fid : NULL, "fi_close(mr)", fail);
	gofi_close_fid(d->mr ? &d->mr->fid : NULL, "fi_close(mr)", fail);
	gofi_close_fid(d->domain ? &d->domain->fid : NULL, "fi_close(domain)", fail);
	gofi_close_fid(d->fabric ? &d->fabric->fid : NULL, "fi_close(fabric)", fail);
	if (d->arena)
		(void)munmap(d->arena, d->arena_bytes);
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

// grown returns a table with room for index, zeroed where it is new, or NULL; *cap is its size.
static void *grown(void *table, size_t item, uint32_t *cap, uint32_t index)
{
	uint64_t want = *cap ? *cap : 16;
	char *mem;

	if (index < *cap)
		return table;
	while (want <= index)
		want *= 2;
	mem = realloc(table, want * item);
	if (!mem)
		return NULL;
	memset(mem + *cap * item, 0, (want - *cap) * item);
	*cap = (uint32_t)want;
	return mem;
}

static uint32_t home(uint64_t key, uint32_t bits)
{
	return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> (64 - bits)); // Fibonacci hashing
}

static uint64_t table_get(const struct gofi_table *t, uint64_t key)
{
	uint32_t mask, i;

	if (!t->bits)
		return FI_ADDR_NOTAVAIL;
	mask = (1u << t->bits) - 1;
	for (i = home(key, t->bits); t->entries[i].addr; i = (i + 1) & mask)
		if (t->entries[i].key == key)
			return t->entries[i].addr;
	return FI_ADDR_NOTAVAIL;
}

// table_put adds an entry unless another Addr has the key.
static void table_put(struct gofi_table *t, uint64_t key, uint64_t addr)
{
	uint32_t mask = (1u << t->bits) - 1, i = home(key, t->bits);

	while (t->entries[i].addr && t->entries[i].key != key)
		i = (i + 1) & mask;
	if (t->entries[i].addr)
		return;
	t->entries[i] = (struct gofi_entry){key, addr};
	t->used++;
}

// table_reserve keeps a table at most half full, so that every probe ends.
static int table_reserve(struct gofi_table *t)
{
	struct gofi_table bigger = {.bits = t->bits ? t->bits + 1 : 6};

	if (t->bits && 2 * (t->used + 1) <= 1u << t->bits)
		return 0;
	bigger.entries = calloc((size_t)1 << bigger.bits, sizeof(*bigger.entries));
	if (!bigger.entries)
		return FI_ENOMEM;
	for (uint32_t i = 0; t->bits && i < 1u << t->bits; i++)
		if (t->entries[i].addr)
			table_put(&bigger, t->entries[i].key, t->entries[i].addr);
	free(t->entries);
	*t = bigger;
	return 0;
}

// table_drop removes an entry and closes the gap that it leaves in its probe sequence.
static void table_drop(struct gofi_table *t, uint64_t key, uint64_t addr)
{
	uint32_t mask = (1u << t->bits) - 1, i = home(key, t->bits), j;

	while (t->entries[i].addr && t->entries[i].key != key)
		i = (i + 1) & mask;
	if (t->entries[i].addr != addr)
		return; // another name with the same key owns the entry
	for (j = (i + 1) & mask; t->entries[j].addr; j = (j + 1) & mask) {
		uint32_t h = home(t->entries[j].key, t->bits);

		if (((j - h) & mask) < ((j - i) & mask))
			continue; // lies between its home and the gap's end already
		t->entries[i] = t->entries[j];
		i = j;
	}
	t->entries[i] = (struct gofi_entry){0, 0};
	t->used--;
}

uint64_t gofi_addr_of(const struct gofi_domain *d, fi_addr_t fi)
{
	return fi == FI_ADDR_NOTAVAIL ? FI_ADDR_NOTAVAIL : table_get(&d->back, fi);
}

static struct gofi_name name_of(const void *sockaddr)
{
	const struct sockaddr_in *in = sockaddr;
	const struct sockaddr_in6 *in6 = sockaddr;
	struct gofi_name n = {.family = in->sin_family};

	if (n.family == AF_INET) {
		n.port = in->sin_port;
		memcpy(n.ip, &in->sin_addr, sizeof(in->sin_addr));
	} else if (n.family == AF_INET6) {
		n.port = in6->sin6_port;
		n.scope = in6->sin6_scope_id;
		memcpy(n.ip, &in6->sin6_addr, sizeof(in6->sin6_addr));
	}
	return n;
}

static uint64_t key_of(const struct gofi_name *n)
{
	uint64_t key = n->ip[0];

	key = (key ^ key >> 32) * 0xff51afd7ed558ccdu + n->ip[1];
	key = (key ^ key >> 32) * 0xff51afd7ed558ccdu + n->scope;
	return (key ^ key >> 32) * 0xff51afd7ed558ccdu + n->port;
}

uint64_t gofi_addr_named(const struct gofi_domain *d, const struct sockaddr_in6 *sockaddr)
{
	struct gofi_name name = name_of(sockaddr);
	uint64_t addr = table_get(&d->named, key_of(&name));

	if (addr == FI_ADDR_NOTAVAIL || memcmp(&d->peers[(uint32_t)addr].name, &name, sizeof(name)))
		return FI_ADDR_NOTAVAIL;
	return addr;
}

int gofi_insert(struct gofi_domain *d, uint64_t addr, const void *name, uint64_t known,
	struct gofi_fail *fail)
{
	uint32_t index = (uint32_t)addr;
	void *peers = grown(d->peers, sizeof(*d->peers), &d->peer_cap, index);
	fi_addr_t fi = known;
	struct gofi_peer *p;
	int ret = 1;

	if (!peers)
		return gofi_failed(fail, "realloc", -FI_ENOMEM);
	d->peers = peers;
	if (table_reserve(&d->back) || table_reserve(&d->named))
		return gofi_failed(fail, "calloc", -FI_ENOMEM);
	if (known == GOFI_NO_FI_ADDR)
		ret = fi_av_insert(d->av, name, 1, &fi, 0, NULL);
	if (ret != 1 || fi == FI_ADDR_NOTAVAIL)
		return gofi_failed(fail, "fi_av_insert", ret < 0 ? ret : -GOFI_NO_ADDRESS);
	p = &d->peers[index];
	*p = (struct gofi_peer){.fi = fi, .gen = (uint32_t)(addr >> 32)};
	table_put(&d->back, fi, addr);
	switch (gofi_addr_kind(d->info)) {
	case GOFI_ADDR_SOCKADDR:
	case GOFI_ADDR_IN:
	case GOFI_ADDR_IN6:
		p->name = name_of(name);
		table_put(&d->named, key_of(&p->name), addr);
	}
	return 0;
}

uint64_t gofi_fi_addr(const struct gofi_domain *d, uint64_t addr)
{
	return d->peers[(uint32_t)addr].fi;
}

int gofi_remove(struct gofi_domain *d, uint64_t addr, struct gofi_fail *fail)
{
	struct gofi_peer *p = &d->peers[(uint32_t)addr];
	fi_addr_t fi = p->fi;
	int ret;

	p->gen = 0; // from here on no send finds it, whatever libfabric answers
	table_drop(&d->back, fi, addr);
	if (p->name.family)
		table_drop(&d->named, key_of(&p->name), addr);
	if (d->lay.quirks & GOFI_KEEPS_PEERS)
		return 0;
	ret = fi_av_remove(d->av, &fi, 1, 0);
	// The peer was there: Go has looked.
	if (ret == -FI_EINVAL && d->lay.quirks & GOFI_REMOVE_COMPLAINS)
		return 0;
	return ret ? gofi_failed(fail, "fi_av_remove", ret) : 0;
}

int gofi_region_add(struct gofi_domain *d, uint32_t region, void *base, uint64_t len,
	struct gofi_fail *fail)
{
	uint32_t index = region & GOFI_REGION_INDEX;
	void *table = grown(d->regions, sizeof(*d->regions), &d->region_cap, index);
	struct gofi_region *r;

	if (!table)
		return gofi_failed(fail, "realloc", -FI_ENOMEM);
	d->regions = table;
	r = &d->regions[index];
	memset(r, 0, sizeof(*r));
	if (d->local_mr) {
		if (reg_mr(d, base, len, FI_SEND, &r->mr, fail))
			return fail->code;
		r->desc = fi_mr_desc(r->mr);
	}
	r->base = base;
	r->len = len;
	r->id = region;
	return 0;
}

int gofi_region_drop(struct gofi_domain *d, uint32_t region, struct gofi_fail *fail)
{
	struct gofi_region *r = &d->regions[region & GOFI_REGION_INDEX];

	gofi_close_fid(r->mr ? &r->mr->fid : NULL, "fi_close(mr)", fail);
	memset(r, 0, sizeof(*r));
	return fail->code;
}
