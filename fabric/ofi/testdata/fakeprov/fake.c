// fake.c: a libfabric provider for tests, loaded through FI_PROVIDER_PATH. It connects endpoints of
// one process, and has what the kernel's providers lack and hardware has:
//
//	domain "ud"   as verbs: receive prefix of 40 bytes, FI_MR_LOCAL, FI_CONTEXT2, FI_AV_MAP with
//	              pointers, no FI_SOURCE, no wait descriptor, opaque names, late send completions
//	domain "nic"  as usnic: prefix of 64 bytes both ways, FI_CONTEXT, AV type unspecified but only
//	              FI_AV_MAP taken, FI_SOURCE if asked for, wait descriptor only after the bind
//
// It is strict: a call that breaks libfabric's rules gets EPROTO, an object that is closed while
// others need it EBUSY. Names with special ports or ids make it fail on purpose (SPECIAL_*).
#define EXTERNALLY_VISIBLE externally_visible
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MAX_EPS = 64, MAX_QUEUE = 64, MTU = 2000, LATE = 2 };
enum {
	SPECIAL_NOBODY = 60001,  // fi_av_insert takes no such address
	SPECIAL_CQ_ERROR,        // sends to it end in an error completion
	SPECIAL_DEVICE,          // a send to it breaks the receive queue
	SPECIAL_FOREIGN,         // a send to it completes with a context that nobody gave
	FIRST_ID = 1000
};

struct fabric { struct fid_fabric fid; int refs; };
struct domain { struct fid_domain fid; struct fabric *fabric; int refs; int nic; int source; };
struct av { struct fid_av fid; struct domain *d; int refs; };
struct peer { uint32_t id; struct av *av; };
struct item {
	void *context;
	uint64_t flags;
	size_t len, olen;
	fi_addr_t src;
	int err, late;
};
struct cq {
	struct fid_cq fid;
	struct domain *d;
	int refs, fd, bound;
	size_t size;
	struct item q[MAX_QUEUE];
	size_t count;
};
struct recv { char *buf; size_t len; void *context; };
struct waiting { uint32_t from; size_t len; char data[MTU]; }; // a datagram without a receive
struct ep {
	struct fid_ep fid;
	struct domain *d;
	struct av *av;
	struct cq *tx, *rx;
	uint32_t id;
	int enabled, source;
	size_t tx_size, rx_size, tx_out;
	struct recv rq[MAX_QUEUE];
	size_t rcount;
	struct waiting wq[MAX_QUEUE];
	size_t wcount;
};
struct mr { struct fid_mr fid; struct domain *d; const char *base; size_t len; uint64_t access; };

// All endpoints meet here, whichever goroutine owns them.
static pthread_mutex_t world = PTHREAD_MUTEX_INITIALIZER;
static struct ep *eps[MAX_EPS];
static struct peer *peers[256];
static struct mr *mrs[256];
static void *busy[256]; // contexts in use

#define OBJ(type, ptr) ((struct type *)(ptr))
#define EMPTY(ops) .size = sizeof(struct ops)

static pthread_mutex_t *lock(void)
{
	pthread_mutex_lock(&world);
	return &world;
}

static void unlock(pthread_mutex_t **m)
{
	pthread_mutex_unlock(*m);
}

// IN_WORLD holds the lock until the function returns.
#define IN_WORLD pthread_mutex_t *held __attribute__((cleanup(unlock), unused)) = lock()

static int tx_prefix(const struct domain *d) { return d->nic ? 64 : 0; }
static int rx_prefix(const struct domain *d) { return d->nic ? 64 : 40; }

static int table_put(void **table, void *p)
{
	for (int i = 0; i < 256; i++)
		if (!table[i]) {
			table[i] = p;
			return 1;
		}
	return 0;
}

static int table_drop(void **table, void *p)
{
	for (int i = 0; i < 256; i++)
		if (table[i] == p) {
			table[i] = NULL;
			return 1;
		}
	return 0;
}

static int in_table(void **table, void *p)
{
	for (int i = 0; i < 256; i++)
		if (table[i] == p)
			return 1;
	return 0;
}

static void push(struct cq *cq, struct item it)
{
	uint64_t one = 1;

	cq->q[cq->count++] = it;
	if (cq->fd >= 0 && write(cq->fd, &one, 8) != 8)
		abort();
}

static struct item pop(struct cq *cq)
{
	struct item it = cq->q[0];

	memmove(cq->q, cq->q + 1, --cq->count * sizeof(it));
	if (it.context)
		table_drop(busy, it.context);
	return it;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	IN_WORLD;
	struct cq *cq = OBJ(cq, fid);
	struct fi_cq_msg_entry *e = buf;
	size_t n = 0;

	for (size_t i = 0; i < cq->count; i++)
		if (cq->q[i].late > 0)
			cq->q[i].late--;
	while (n < count && cq->count && !cq->q[0].late) {
		if (cq->q[0].err)
			return n ? (ssize_t)n : -FI_EAVAIL;
		struct item it = pop(cq);

		if (src)
			src[n] = it.src;
		e[n++] = (struct fi_cq_msg_entry){it.context, it.flags, it.len};
	}
	return n ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *e, uint64_t flags)
{
	IN_WORLD;
	struct cq *cq = OBJ(cq, fid);

	(void)flags;
	if (!cq->count || !cq->q[0].err)
		return -FI_EAGAIN;
	struct item it = pop(cq);

	*e = (struct fi_cq_err_entry){.op_context = it.context, .flags = it.flags, .len = it.len,
		.olen = it.olen, .err = it.err};
	return 1;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct cq *cq = OBJ(cq, fid);

	if (command != FI_GETWAIT || cq->fd < 0 || !cq->bound)
		return -FI_ENOSYS;
	*(int *)arg = cq->fd;
	return 0;
}

static int cq_close(struct fid *fid)
{
	IN_WORLD;
	struct cq *cq = OBJ(cq, fid);

	if (cq->refs)
		return -FI_EBUSY;
	if (cq->fd >= 0)
		close(cq->fd);
	for (size_t i = 0; i < cq->count; i++)
		table_drop(busy, cq->q[i].context);
	cq->d->refs--;
	free(cq);
	return 0;
}

static struct fi_ops cq_close_ops = {EMPTY(fi_ops), .close = cq_close, .control = cq_control};
static struct fi_ops_cq cq_ops = {
	EMPTY(fi_ops_cq), .read = cq_read, .readfrom = cq_readfrom, .readerr = cq_readerr};

static int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *ctx)
{
	struct domain *d = OBJ(domain, fid);
	struct cq *cq;

	(void)ctx;
	if (attr->format != FI_CQ_FORMAT_MSG || attr->size > MAX_QUEUE)
		return -FI_EINVAL;
	if (attr->wait_obj == FI_WAIT_FD ? !d->nic : attr->wait_obj != FI_WAIT_NONE)
		return -FI_ENOSYS;
	cq = calloc(1, sizeof(*cq));
	cq->d = d;
	cq->size = attr->size;
	cq->fd = attr->wait_obj == FI_WAIT_FD ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	cq->fid.fid = (struct fid){FI_CLASS_CQ, NULL, &cq_close_ops};
	cq->fid.ops = &cq_ops;
	d->refs++;
	*out = &cq->fid;
	return 0;
}

// ---- address vector

static uint32_t id_of(const struct domain *d, const void *name)
{
	uint64_t id;

	if (d->nic)
		return ntohs(((const struct sockaddr_in *)name)->sin_port);
	memcpy(&id, name, sizeof(id));
	return (uint32_t)id;
}

// The fi_addr_t of a peer: on "ud" its pointer; on "nic" its place in the table times the inverse
// of the constant of Fibonacci hashing, so that in such a hash table all of them collide.
static const uint64_t golden = 0x9e3779b97f4a7c15u, inverse = 0xf1de83e19937733du;

static fi_addr_t addr_of(const struct domain *d, struct peer *p)
{
	uint64_t i = 0;

	while (peers[i] != p)
		i++;
	return d->nic ? (i + 1) * inverse : (fi_addr_t)(uintptr_t)p;
}

static struct peer *peer_of(const struct domain *d, fi_addr_t addr)
{
	uint64_t i = addr * golden - 1;

	if (d->nic)
		return i < 256 ? peers[i] : NULL;
	return in_table((void **)peers, (void *)(uintptr_t)addr) ? (void *)(uintptr_t)addr : NULL;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *out,
	uint64_t flags, void *ctx)
{
	IN_WORLD;
	struct av *av = OBJ(av, fid);
	struct peer *p;

	(void)ctx;
	if (count != 1 || flags)
		return -FI_EINVAL;
	if (id_of(av->d, addr) == SPECIAL_NOBODY || id_of(av->d, addr) < FIRST_ID ||
	    id_of(av->d, addr) > UINT16_MAX) {
		*out = FI_ADDR_NOTAVAIL;
		return 0;
	}
	p = calloc(1, sizeof(*p));
	p->id = id_of(av->d, addr);
	p->av = av;
	if (!table_put((void **)peers, p))
		return -FI_ENOMEM;
	*out = addr_of(av->d, p);
	return 1;
}

static int av_remove(struct fid_av *fid, fi_addr_t *addr, size_t count, uint64_t flags)
{
	IN_WORLD;
	struct peer *p = peer_of(OBJ(av, fid)->d, *addr);

	if (count != 1 || flags || !p)
		return -EPROTO;
	table_drop((void **)peers, p);
	free(p);
	return 0;
}

static int av_close(struct fid *fid)
{
	struct av *av = OBJ(av, fid);

	IN_WORLD;
	if (av->refs)
		return -FI_EBUSY;
	for (int i = 0; i < 256; i++)
		if (peers[i] && peers[i]->av == av) {
			free(peers[i]);
			peers[i] = NULL;
		}
	av->d->refs--;
	free(av);
	return 0;
}

static struct fi_ops av_fid_ops = {EMPTY(fi_ops), .close = av_close};
static struct fi_ops_av av_ops = {EMPTY(fi_ops_av), .insert = av_insert, .remove = av_remove};

static int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *ctx)
{
	struct av *av;

	(void)ctx;
	if (attr->type != FI_AV_MAP)
		return -FI_EINVAL;
	av = calloc(1, sizeof(*av));
	av->d = OBJ(domain, fid);
	av->d->refs++;
	av->fid.fid = (struct fid){FI_CLASS_AV, NULL, &av_fid_ops};
	av->fid.ops = &av_ops;
	*out = &av->fid;
	return 0;
}

// ---- memory registration

static int mr_close(struct fid *fid)
{
	IN_WORLD;
	struct mr *mr = OBJ(mr, fid);

	table_drop((void **)mrs, mr);
	mr->d->refs--;
	free(mr);
	return 0;
}

static struct fi_ops mr_fid_ops = {EMPTY(fi_ops), .close = mr_close};

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
	uint64_t key, uint64_t flags, struct fid_mr **out, void *ctx)
{
	IN_WORLD;
	struct mr *mr;

	(void)ctx;
	if (offset || flags || !len)
		return -EPROTO;
	for (int i = 0; i < 256; i++)
		if (mrs[i] && mrs[i]->fid.key == key && mrs[i]->d == OBJ(domain, fid))
			return -FI_ENOKEY;
	mr = calloc(1, sizeof(*mr));
	mr->d = OBJ(domain, fid);
	mr->d->refs++;
	mr->base = buf;
	mr->len = len;
	mr->access = access;
	mr->fid.fid = (struct fid){FI_CLASS_MR, NULL, &mr_fid_ops};
	mr->fid.mem_desc = mr;
	mr->fid.key = key;
	if (!table_put((void **)mrs, mr))
		abort();
	*out = &mr->fid;
	return 0;
}

static struct fi_ops_mr mr_ops = {EMPTY(fi_ops_mr), .reg = mr_reg};

// covered says whether bytes may be used as libfabric's rules want it.
static int covered(const struct domain *d, void *desc, const char *buf, size_t len, uint64_t access)
{
	struct mr *mr = desc;

	if (d->nic)
		return desc == NULL;
	return in_table((void **)mrs, mr) && mr && mr->access & access && buf >= mr->base &&
		buf + len <= mr->base + mr->len;
}

// ---- data

static void deliver(uint32_t from, struct ep *to, const char *data, size_t len)
{
	size_t prefix = rx_prefix(to->d);
	struct item it = {.flags = FI_RECV | FI_MSG, .src = FI_ADDR_NOTAVAIL};
	struct recv r;

	if (!to->rcount) { // kept as long as it would be if its receive had been posted
		if (to->wcount + to->rx->count < to->rx_size) {
			to->wq[to->wcount] = (struct waiting){.from = from, .len = len};
			memcpy(to->wq[to->wcount++].data, data, len);
		}
		return;
	}
	r = to->rq[0];
	memmove(to->rq, to->rq + 1, --to->rcount * sizeof(r));
	memset(r.buf, 0xee, prefix);
	it.context = r.context;
	it.len = len + prefix;
	if (it.len > r.len) {
		it.err = FI_ETRUNC;
		it.olen = it.len - r.len;
		it.len = r.len;
	}
	memcpy(r.buf + prefix, data, it.len - prefix);
	for (int i = 0; to->source && i < 256; i++)
		if (peers[i] && peers[i]->id == from && peers[i]->av == to->av)
			it.src = addr_of(to->d, peers[i]);
	push(to->rx, it);
}

static ssize_t transmit(struct ep *ep, const struct iovec *iov, void **desc, size_t n, fi_addr_t to,
	void *context, int inject)
{
	IN_WORLD;
	struct peer *p = peer_of(ep->d, to);
	char data[MTU + 64];
	size_t len = 0, prefix = tx_prefix(ep->d);

	if (!ep->enabled || !p || iov[0].iov_len < prefix)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		if (!inject && !covered(ep->d, desc[i], iov[i].iov_base, iov[i].iov_len, FI_SEND))
			return -EPROTO;
		if (len + iov[i].iov_len > sizeof(data) || len + iov[i].iov_len > MTU + prefix)
			return -FI_EMSGSIZE;
		memcpy(data + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	memset(iov[0].iov_base, 0xee, prefix); // the prefix is the provider's to write into
	if (!inject) {
		struct item it = {.context = context, .flags = FI_SEND | FI_MSG, .len = len, .late = LATE};

		if (ep->tx->count == ep->tx->size || ep->tx->count == ep->tx_size)
			return -FI_EAGAIN;
		if (!context || (uintptr_t)context % 8 || in_table(busy, context))
			return -EPROTO;
		memset(context, 0x5a, ep->d->nic ? sizeof(struct fi_context) : sizeof(struct fi_context2));
		table_put(busy, context);
		if (p->id == SPECIAL_CQ_ERROR)
			it.err = FI_EHOSTUNREACH;
		if (p->id == SPECIAL_FOREIGN) {
			table_drop(busy, context);
			it.context = &eps;
		}
		push(ep->tx, it);
	}
	if (p->id == SPECIAL_DEVICE)
		push(ep->rx, (struct item){.err = FI_ENODEV});
	for (int i = 0; i < MAX_EPS; i++)
		if (eps[i] && eps[i]->enabled && eps[i]->id == p->id && eps[i]->d->nic == ep->d->nic)
			deliver(ep->id, eps[i], data + prefix, len - prefix);
	return 0;
}

static ssize_t ep_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t n,
	fi_addr_t to, void *context)
{
	return transmit(OBJ(ep, fid), iov, desc, n, to, context, 0);
}

static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
	void *context)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return transmit(OBJ(ep, fid), &iov, &desc, 1, to, context, 0);
}

static ssize_t ep_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	if (len > 128)
		return -FI_EMSGSIZE;
	return transmit(OBJ(ep, fid), &iov, NULL, 1, to, NULL, 1);
}

static ssize_t ep_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
	void *context)
{
	IN_WORLD;
	struct ep *ep = OBJ(ep, fid);

	if (ep->rcount == ep->rx_size)
		return -FI_EAGAIN;
	if (!ep->enabled || from != FI_ADDR_UNSPEC || len < (size_t)rx_prefix(ep->d) ||
	    !covered(ep->d, desc, buf, len, FI_RECV) || in_table(busy, context))
		return -EPROTO;
	memset(context, 0x5a, ep->d->nic ? sizeof(struct fi_context) : sizeof(struct fi_context2));
	table_put(busy, context);
	ep->rq[ep->rcount++] = (struct recv){buf, len, context};
	if (ep->wcount) {
		struct waiting w = ep->wq[0];

		memmove(ep->wq, ep->wq + 1, --ep->wcount * sizeof(w));
		deliver(w.from, ep, w.data, w.len);
	}
	return 0;
}

static struct fi_ops_msg msg_ops = {EMPTY(fi_ops_msg), .recv = ep_recv, .send = ep_send,
	.sendv = ep_sendv, .inject = ep_inject};

// ---- endpoint

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
	struct ep *ep = OBJ(ep, fid);
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)ep->id)};
	uint64_t words[4] = {ep->id, 1, 2, 3};
	size_t room = *len;

	in.sin_addr.s_addr = htonl(0x7f000001);
	*len = ep->d->nic ? sizeof(in) : sizeof(words);
	memcpy(addr, ep->d->nic ? (void *)&in : (void *)words, room < *len ? room : *len);
	return room < *len ? -FI_ETOOSMALL : 0;
}

static struct fi_ops_cm cm_ops = {EMPTY(fi_ops_cm), .getname = ep_getname};

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct ep *ep = OBJ(ep, fid);

	if (other->fclass == FI_CLASS_AV) {
		ep->av = OBJ(av, other);
		ep->av->refs++;
	} else if (flags == FI_TRANSMIT) {
		ep->tx = OBJ(cq, other);
		ep->tx->refs++;
	} else if (flags == FI_RECV) {
		ep->rx = OBJ(cq, other);
		ep->rx->refs++;
		ep->rx->bound = 1;
	} else {
		return -EPROTO;
	}
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	IN_WORLD;
	struct ep *ep = OBJ(ep, fid);

	(void)arg;
	if (command != FI_ENABLE || !ep->av || !ep->tx || !ep->rx || ep->rx->size < ep->rx_size)
		return -EPROTO;
	ep->enabled = 1;
	return 0;
}

static int ep_close(struct fid *fid)
{
	IN_WORLD;
	struct ep *ep = OBJ(ep, fid);

	for (size_t i = 0; i < ep->rcount; i++)
		table_drop(busy, ep->rq[i].context);
	if (ep->av)
		ep->av->refs--;
	if (ep->tx)
		ep->tx->refs--;
	if (ep->rx)
		ep->rx->refs--;
	eps[ep->id - FIRST_ID] = NULL;
	ep->d->refs--;
	free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	EMPTY(fi_ops), .close = ep_close, .bind = ep_bind, .control = ep_control};

static int endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *ctx)
{
	IN_WORLD;
	struct domain *d = OBJ(domain, fid);
	struct ep *ep;
	int i;

	(void)ctx;
	// The fall-back of the caller is tested with a depth that this endpoint refuses with FI_SOURCE.
	if (info->caps & FI_SOURCE && (!d->source || info->rx_attr->size == 3))
		return -FI_EOPNOTSUPP;
	for (i = 0; i < MAX_EPS && eps[i]; i++)
		;
	if (i == MAX_EPS)
		return -FI_ENOMEM;
	ep = calloc(1, sizeof(*ep));
	ep->d = d;
	ep->id = FIRST_ID + i;
	ep->tx_size = info->tx_attr->size;
	ep->rx_size = info->rx_attr->size;
	ep->source = (info->caps & FI_SOURCE) != 0;
	ep->fid.fid = (struct fid){FI_CLASS_EP, NULL, &ep_fid_ops};
	ep->fid.msg = &msg_ops;
	ep->fid.cm = &cm_ops;
	eps[i] = ep;
	d->refs++;
	*out = &ep->fid;
	return 0;
}

// ---- domain, fabric, information

static int domain_close(struct fid *fid)
{
	struct domain *d = OBJ(domain, fid);

	if (d->refs)
		return -FI_EBUSY;
	d->fabric->refs--;
	free(d);
	return 0;
}

static struct fi_ops domain_fid_ops = {EMPTY(fi_ops), .close = domain_close};
static struct fi_ops_domain domain_ops = {
	EMPTY(fi_ops_domain), .av_open = av_open, .cq_open = cq_open, .endpoint = endpoint};

static int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
	void *ctx)
{
	struct domain *d = calloc(1, sizeof(*d));

	(void)ctx;
	d->fabric = OBJ(fabric, fid);
	d->fabric->refs++;
	d->nic = !strcmp(info->domain_attr->name, "nic");
	d->source = (info->caps & FI_SOURCE) != 0;
	d->fid.fid = (struct fid){FI_CLASS_DOMAIN, NULL, &domain_fid_ops};
	d->fid.ops = &domain_ops;
	d->fid.mr = &mr_ops;
	*out = &d->fid;
	return 0;
}

static int trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	IN_WORLD;
	(void)fid;
	for (int i = 0; i < count; i++) {
		struct cq *cq = OBJ(cq, fids[i]);
		uint64_t n;

		if (cq->fd < 0)
			return -EPROTO;
		if (cq->count)
			return -FI_EAGAIN;
		if (read(cq->fd, &n, 8) < 0 && errno != EAGAIN)
			return -errno;
	}
	return 0;
}

static int fabric_close(struct fid *fid)
{
	if (OBJ(fabric, fid)->refs)
		return -FI_EBUSY;
	free(fid);
	return 0;
}

static struct fi_ops fabric_fid_ops = {EMPTY(fi_ops), .close = fabric_close};
static struct fi_ops_fabric fabric_ops = {
	EMPTY(fi_ops_fabric), .domain = domain_open, .trywait = trywait};

static int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *ctx)
{
	struct fabric *f = calloc(1, sizeof(*f));

	(void)attr;
	(void)ctx;
	f->fid.fid = (struct fid){FI_CLASS_FABRIC, NULL, &fabric_fid_ops};
	f->fid.ops = &fabric_ops;
	*out = &f->fid;
	return 0;
}

static struct fi_info *make_info(const char *name, uint64_t caps)
{
	struct fi_info *fi = fi_allocinfo();
	int nic = !strcmp(name, "nic");

	fi->caps = caps;
	fi->mode = (nic ? FI_CONTEXT : FI_CONTEXT2) | FI_MSG_PREFIX;
	fi->addr_format = nic ? FI_SOCKADDR_IN : FI_ADDR_IB_UD;
	fi->tx_attr->caps = FI_MSG | FI_SEND;
	fi->tx_attr->mode = nic ? FI_MSG_PREFIX : 0;
	fi->tx_attr->inject_size = 128;
	fi->tx_attr->size = 8;
	fi->tx_attr->iov_limit = 4;
	fi->rx_attr->caps = caps;
	fi->rx_attr->mode = FI_MSG_PREFIX;
	fi->rx_attr->size = 16;
	fi->rx_attr->iov_limit = 4;
	fi->ep_attr->type = FI_EP_DGRAM;
	fi->ep_attr->max_msg_size = MTU;
	fi->ep_attr->msg_prefix_size = nic ? 64 : 40;
	fi->domain_attr->name = strdup(name);
	fi->domain_attr->threading = FI_THREAD_DOMAIN;
	fi->domain_attr->av_type = nic ? FI_AV_UNSPEC : FI_AV_MAP;
	fi->domain_attr->mr_mode = nic ? 0 : FI_MR_LOCAL;
	fi->fabric_attr->name = strdup("fake");
	return fi;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints, struct fi_info **out)
{
	uint64_t caps = FI_MSG | FI_SEND | FI_RECV;

	(void)node;
	(void)service;
	(void)flags;
	if (FI_VERSION_LT(version, FI_VERSION(1, 9)) || !hints || !hints->ep_attr ||
	    hints->ep_attr->type != FI_EP_DGRAM)
		return -FI_ENODATA;
	if (hints->caps & FI_SOURCE) { // named only to who asks
		*out = make_info("nic", caps | FI_SOURCE);
		return 0;
	}
	*out = make_info("ud", caps);
	(*out)->next = make_info("nic", caps);
	return 0;
}

static void cleanup(void) {}

FI_EXT_INI
{
	static struct fi_provider prov = {.version = FI_VERSION(1, 0), .fi_version = FI_VERSION(1, 17),
		.name = "gofake", .getinfo = getinfo, .fabric = fabric_open, .cleanup = cleanup};

	return &prov;
}
