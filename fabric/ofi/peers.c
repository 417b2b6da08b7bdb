//go:build linux && cgo

// peers.c: what sends name: peers in the address vector, and regions of memory.
#include "internal.h"

#ifdef GOFI_HEADERS

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

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
	d->left -= p->copied; // of a peer that comes again, in the place that it had
	*p = (struct gofi_peer){.fi = fi, .gen = (uint32_t)(addr >> 32), .copied = p->copied};
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

int gofi_remove(struct gofi_domain *d, uint64_t addr, int *kept, struct gofi_fail *fail)
{
	struct gofi_peer *p = &d->peers[(uint32_t)addr];
	fi_addr_t fi = p->fi;
	int ret;

	p->gen = 0; // from here on no send finds it, whatever libfabric answers
	table_drop(&d->back, fi, addr);
	if (p->name.family)
		table_drop(&d->named, key_of(&p->name), addr);
	gofi_drop_copies(d, p, NULL);
	// What the provider still has for the peer would find no connection.
	*kept = d->lay.quirks & GOFI_KEEPS_PEERS || p->copied;
	d->left += p->copied;
	if (*kept)
		return 0;
	ret = fi_av_remove(d->av, &fi, 1, 0);
	// The peer was there: Go has looked.
	if (ret == -FI_EINVAL && d->lay.quirks & GOFI_REMOVE_COMPLAINS)
		return 0;
	return ret ? gofi_failed(fail, "fi_av_remove", ret) : 0;
}

int gofi_forget(struct gofi_domain *d, uint32_t index)
{
	struct gofi_peer *p = &d->peers[index];

	if (p->copied)
		return 0;
	fi_av_remove(d->av, &p->fi, 1, 0); // whatever it says: the peer is not used again
	return 1;
}

uint32_t gofi_copied(const struct gofi_domain *d)
{
	return d->copied;
}

int gofi_reg_mr(struct gofi_domain *d, void *base, uint64_t len, uint64_t access,
	struct fid_mr **mr, struct gofi_fail *fail)
{
	// Keys are unique because providers without FI_MR_PROV_KEY take the caller's.
	int ret = fi_mr_reg(d->domain, base, len, access, 0, ++d->next_key, 0, mr, NULL);

	if (!ret)
		return 0;
	*mr = NULL;
	return gofi_failed(fail, "fi_mr_reg", ret);
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
		if (gofi_reg_mr(d, base, len, FI_SEND, &r->mr, fail))
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

#endif
