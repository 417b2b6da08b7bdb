//go:build linux && cgo

// copies.c: sends of which the provider is given a copy (GOFI_COPIES). Some providers keep what
// they send to a peer that has ended or stands still, for ever: so that is no memory of the
// caller's, and it is bounded for each peer. What the provider does not take for one peer waits
// here, and those to others go on. Memory is allocated for more copies than there ever were at
// once, never per send.
#include "internal.h"

#ifdef GOFI_HEADERS

#include <stdlib.h>
#include <string.h>

enum {
	// PEER_COPIES bounds the sends that a peer has not taken, 4 MiB of the largest.
	PEER_COPIES = 256,
	// ALL_COPIES is the number of those of all peers at which each peer may have one.
	ALL_COPIES = 16384,
	// PEER_WAITING bounds the copies that wait for a peer beside those. What it may be sent at
	// once is less, by the credits that it gives.
	PEER_WAITING = 4096,
	BLOCK = 16 // copies that are allocated together
};

struct gofi_copy {
	struct fi_context2 context; // the provider's, until the completion
	struct gofi_copy *next;     // of those that are free, or wait for the same peer
	struct gofi_ep *ep;
	uint64_t to; // an Addr
	size_t len;  // with the prefix
	char bytes[];
};

struct gofi_block {
	struct gofi_block *next;
	char copies[];
};

static int grow(struct gofi_domain *d)
{
	size_t each = sizeof(struct gofi_copy) + d->lay.tx_prefix + d->lay.mtu;
	struct gofi_block *block;

	each = (each + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	block = malloc(sizeof(*block) + BLOCK * each);
	if (!block)
		return -FI_EAGAIN;
	block->next = d->blocks;
	d->blocks = block;
	for (int i = 0; i < BLOCK; i++) {
		struct gofi_copy *c = (struct gofi_copy *)(block->copies + i * each);

		c->next = d->copies;
		d->copies = c;
	}
	return 0;
}

// share is how many sends a peer may have that it has not taken.
static inline uint32_t share(const struct gofi_domain *d)
{
	uint32_t rest = d->copied < ALL_COPIES ? (ALL_COPIES - d->copied) / 4 : 0;

	return rest < 1 ? 1 : rest < PEER_COPIES ? rest : PEER_COPIES;
}

// make_copy returns a copy of a send, or NULL.
static struct gofi_copy *make_copy(struct gofi_ep *ep, const struct gofi_parts *p, uint64_t to)
{
	struct gofi_domain *d = ep->d;
	size_t prefix = d->lay.tx_prefix;
	struct gofi_copy *c;

	if (!d->copies && grow(d))
		return NULL;
	c = d->copies;
	d->copies = c->next;
	c->next = NULL;
	c->ep = ep;
	c->to = to;
	c->len = prefix + p->head_len + p->tail_len;
	memcpy(c->bytes + prefix, p->head, p->head_len);
	if (p->tail_len)
		memcpy(c->bytes + prefix + p->head_len, p->tail, p->tail_len);
	return c;
}

static void free_copy(struct gofi_domain *d, struct gofi_copy *c)
{
	c->next = d->copies;
	d->copies = c;
}

// offer gives a copy to the provider: what libfabric returns.
static ssize_t offer(struct gofi_domain *d, struct gofi_peer *peer, struct gofi_copy *c)
{
	ssize_t ret;

	if (peer->copied >= share(d))
		return -FI_EAGAIN;
	ret = fi_send(c->ep->ep, c->bytes, c->len, NULL, peer->fi, &c->context);
	if (ret)
		return ret;
	c->ep->copied++;
	d->copied++;
	peer->copied++;
	return 0;
}

static int64_t wait_for(struct gofi_domain *d, struct gofi_peer *peer, struct gofi_copy *c)
{
	if (peer->first) {
		peer->last->next = c;
	} else {
		peer->first = c;
		peer->next = d->waiting;
		d->waiting = (uint32_t)c->to + 1;
	}
	peer->last = c;
	peer->waiting++;
	return 0;
}

void gofi_offer_copies(struct gofi_domain *d)
{
	uint32_t *link = &d->waiting;

	while (*link) {
		struct gofi_peer *peer = &d->peers[*link - 1];

		while (peer->first) {
			struct gofi_copy *c = peer->first;
			ssize_t ret = offer(d, peer, c);

			if (ret == -FI_EAGAIN)
				break;
			peer->first = c->next;
			peer->waiting--;
			if (ret) // a datagram that was lost
				free_copy(d, c);
		}
		if (peer->first)
			link = &peer->next;
		else
			*link = peer->next;
	}
}

// drop drops the copies that wait for a peer, or those of one endpoint alone.
static void drop(struct gofi_domain *d, struct gofi_peer *peer, const struct gofi_ep *ep)
{
	struct gofi_copy **link = &peer->first;

	peer->last = NULL;
	while (*link) {
		struct gofi_copy *c = *link;

		if (ep && c->ep != ep) {
			peer->last = c;
			link = &c->next;
			continue;
		}
		*link = c->next;
		peer->waiting--;
		free_copy(d, c);
	}
}

void gofi_drop_copies(struct gofi_domain *d, struct gofi_peer *peer, const struct gofi_ep *ep)
{
	uint32_t *link = &d->waiting;

	while (*link) {
		struct gofi_peer *p = &d->peers[*link - 1];

		if (!peer || p == peer)
			drop(d, p, ep);
		if (p->first)
			link = &p->next;
		else
			*link = p->next;
	}
}

// The prefix comes first on the wire side of the interface, so a gathered datagram is put together
// in the endpoint's bounce buffer: libfabric has no fi_injectv, and these bytes are few.
ssize_t gofi_inject(struct gofi_ep *ep, const struct gofi_parts *p)
{
	uint32_t prefix = ep->d->lay.tx_prefix;
	char *head = p->head;

	if (p->tail_len) {
		memcpy(ep->bounce + prefix, head, p->head_len);
		memcpy(ep->bounce + prefix + p->head_len, p->tail, p->tail_len);
		head = ep->bounce + prefix;
	}
	return fi_inject(ep->ep, head - prefix, (size_t)prefix + p->head_len + p->tail_len, p->to);
}

int64_t gofi_post_copy(struct gofi_ep *ep, const struct gofi_parts *p, uint64_t to)
{
	struct gofi_domain *d = ep->d;
	struct gofi_peer *peer = &d->peers[(uint32_t)to];
	struct gofi_copy *c;
	ssize_t ret;

	if (!peer->first && p->head_len + p->tail_len <= d->lay.inject) {
		ret = gofi_inject(ep, p);
		if (ret != -FI_EAGAIN)
			return ret ? gofi_result(0, (int)-ret, GOFI_CALL_INJECT) : 0;
	}
	if (peer->waiting >= PEER_WAITING)
		return gofi_result(0, GOFI_AGAIN, GOFI_CALL_NONE);
	c = make_copy(ep, p, to);
	if (!c)
		return gofi_result(0, GOFI_AGAIN, GOFI_CALL_NONE);
	ret = peer->first ? -FI_EAGAIN : offer(d, peer, c);
	if (ret == -FI_EAGAIN)
		return wait_for(d, peer, c);
	if (!ret)
		return 0;
	free_copy(d, c);
	return gofi_result(0, (int)-ret, GOFI_CALL_SEND);
}

static void take_back(struct gofi_ep *ep, struct gofi_copy *c)
{
	struct gofi_domain *d = ep->d;
	struct gofi_peer *peer = &d->peers[(uint32_t)c->to];

	free_copy(d, c);
	ep->copied--;
	d->copied--;
	peer->copied--; // The place is the peer's until it has none.
	if (!peer->gen) // removed meanwhile
		d->left--;
}

int64_t gofi_read_copies(struct gofi_ep *ep)
{
	enum { READ_CHUNK = 32 };
	struct fi_cq_msg_entry entry[READ_CHUNK];

	while (ep->copied) {
		ssize_t got = fi_cq_read(ep->tx, entry, READ_CHUNK);

		if (got == -FI_EAVAIL) { // a send that failed is a datagram that was lost
			struct fi_cq_err_entry e;

			memset(&e, 0, sizeof(e)); // err_data_size 0: the provider keeps its error data
			got = fi_cq_readerr(ep->tx, &e, 0);
			if (got > 0 && e.op_context)
				take_back(ep, e.op_context);
		} else {
			for (ssize_t i = 0; i < got; i++)
				take_back(ep, entry[i].op_context);
		}
		if (got == -FI_EAGAIN || got == 0)
			break;
		if (got < 0)
			return gofi_result(0, (int)-got, GOFI_CALL_READ);
	}
	return 0;
}

void gofi_free_copies(struct gofi_domain *d)
{
	while (d->blocks) {
		struct gofi_block *block = d->blocks;

		d->blocks = block->next;
		free(block);
	}
}

#endif
