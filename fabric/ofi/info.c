//go:build linux && cgo

// info.c: fi_getinfo and what its results say.
#include "internal.h"

#ifdef GOFI_HEADERS

#include <stdlib.h>
#include <string.h>

// An entry of fi_getinfo may lack any attribute, in principle.
#define ATTR(fi, which, field, absent) ((fi)->which ? (fi)->which->field : (absent))

static const char *text_or_empty(const char *s)
{
	return s ? s : "";
}

// set_hints fills hints for query; strings are duplicated because fi_freeinfo frees them.
static int set_hints(struct fi_info *hints, const struct gofi_query *q)
{
	hints->caps = FI_MSG | (q->source ? FI_SOURCE : 0);
	// These modes are what the shim can live with; what a provider really wants is in its answer.
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_MSG_PREFIX;
	hints->ep_attr->type = q->rdm ? FI_EP_RDM : FI_EP_DGRAM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	if (q->prov && !(hints->fabric_attr->prov_name = strdup(q->prov)))
		return FI_ENOMEM;
	if (q->fabric && !(hints->fabric_attr->name = strdup(q->fabric)))
		return FI_ENOMEM;
	if (q->domain && !(hints->domain_attr->name = strdup(q->domain)))
		return FI_ENOMEM;
	return 0;
}

int gofi_getinfo(const struct gofi_query *q, struct fi_info **out)
{
	struct fi_info *hints = gofi_lib.dupinfo(NULL);
	int ret;

	*out = NULL;
	if (!hints)
		return FI_ENOMEM;
	ret = set_hints(hints, q);
	if (!ret) {
		// Without FI_SOURCE the node would be the peer's, and the endpoint bound to the host's name.
		ret = -gofi_lib.getinfo(GOFI_API, q->node, NULL, q->node ? FI_SOURCE : 0, hints, out);
	}
	gofi_lib.freeinfo(hints);
	return ret;
}

void gofi_freeinfo(struct fi_info *fi)
{
	if (fi)
		gofi_lib.freeinfo(fi);
}

struct fi_info *gofi_next(const struct fi_info *fi)
{
	return fi->next;
}

void gofi_describe(const struct fi_info *fi, struct gofi_info *out)
{
	memset(out, 0, sizeof(*out));
	out->prov = text_or_empty(ATTR(fi, fabric_attr, prov_name, NULL));
	out->fabric = text_or_empty(ATTR(fi, fabric_attr, name, NULL));
	out->domain = text_or_empty(ATTR(fi, domain_attr, name, NULL));
	out->max_msg_size = ATTR(fi, ep_attr, max_msg_size, 0);
	out->prefix_size = ATTR(fi, ep_attr, msg_prefix_size, 0);
	out->inject_size = ATTR(fi, tx_attr, inject_size, 0);
	out->tx_size = ATTR(fi, tx_attr, size, 0);
	out->rx_size = ATTR(fi, rx_attr, size, 0);
	out->iov_limit = ATTR(fi, tx_attr, iov_limit, 0);
	out->addr_format = fi->addr_format;
	out->prov_version = ATTR(fi, fabric_attr, prov_version, 0);
	out->api_version = ATTR(fi, fabric_attr, api_version, 0);
	// Verbs asks for a prefix on receives only, so the directions are looked at one by one.
	out->tx_prefix = (ATTR(fi, tx_attr, mode, 0) & FI_MSG_PREFIX) != 0;
	out->rx_prefix = (ATTR(fi, rx_attr, mode, 0) & FI_MSG_PREFIX) != 0;
	out->local_mr = (ATTR(fi, domain_attr, mr_mode, 0) & FI_MR_LOCAL) != 0;
	out->source = (fi->caps & FI_SOURCE) != 0;
	out->dgram = ATTR(fi, ep_attr, type, FI_EP_UNSPEC) == FI_EP_DGRAM;
	out->rdm = ATTR(fi, ep_attr, type, FI_EP_UNSPEC) == FI_EP_RDM;
	out->ordered = (ATTR(fi, tx_attr, msg_order, 0) & ATTR(fi, rx_attr, msg_order, 0) &
		FI_ORDER_SAS) != 0;
	if (fi->src_addr && fi->src_addrlen <= sizeof(out->src)) {
		out->src_len = (uint32_t)fi->src_addrlen;
		memcpy(out->src, fi->src_addr, fi->src_addrlen);
	}
}

int gofi_addr_kind(const struct fi_info *fi)
{
	switch (fi->addr_format) {
	case FI_SOCKADDR:
		return GOFI_ADDR_SOCKADDR;
	case FI_SOCKADDR_IN:
		return GOFI_ADDR_IN;
	case FI_SOCKADDR_IN6:
		return GOFI_ADDR_IN6;
	case FI_ADDR_STR:
		return GOFI_ADDR_STR;
	}
	return GOFI_ADDR_OTHER; // opaque, also for formats younger than these headers
}

void gofi_attr_text(const struct fi_info *fi, int which, char *text, size_t size)
{
	const struct fi_domain_attr *dom = fi->domain_attr;
	const void *data = NULL;
	enum fi_type type = FI_TYPE_CAPS;

	switch (which) {
	case GOFI_ATTR_CAPS: data = &fi->caps; break;
	case GOFI_ATTR_MODE: data = &fi->mode; type = FI_TYPE_MODE; break;
	case GOFI_ATTR_TX_MODE: data = ATTR(fi, tx_attr, mode, 0) ? &fi->tx_attr->mode : NULL;
		type = FI_TYPE_MODE; break;
	case GOFI_ATTR_RX_MODE: data = ATTR(fi, rx_attr, mode, 0) ? &fi->rx_attr->mode : NULL;
		type = FI_TYPE_MODE; break;
	case GOFI_ATTR_ADDR_FORMAT: data = &fi->addr_format; type = FI_TYPE_ADDR_FORMAT; break;
	case GOFI_ATTR_PROTOCOL: data = fi->ep_attr ? &fi->ep_attr->protocol : NULL;
		type = FI_TYPE_PROTOCOL; break;
	case GOFI_ATTR_THREADING: data = dom ? &dom->threading : NULL; type = FI_TYPE_THREADING; break;
	case GOFI_ATTR_PROGRESS: data = dom ? &dom->data_progress : NULL; type = FI_TYPE_PROGRESS; break;
	case GOFI_ATTR_RESOURCE_MGMT:
		// libfabric prints this one only as a part of the whole domain_attr.
		if (dom && size > 0)
			strncpy(text, dom->resource_mgmt == FI_RM_ENABLED ? "FI_RM_ENABLED" :
				dom->resource_mgmt == FI_RM_DISABLED ? "FI_RM_DISABLED" :
				"FI_RM_UNSPEC", size - 1);
		return;
	case GOFI_ATTR_AV_TYPE: data = dom ? &dom->av_type : NULL; type = FI_TYPE_AV_TYPE; break;
	case GOFI_ATTR_MR_MODE: data = dom ? &dom->mr_mode : NULL; type = FI_TYPE_MR_MODE; break;
	}
	if (data && size > 0)
		gofi_lib.tostr_r(text, size, data, type);
}

uint32_t gofi_version(void)
{
	return gofi_lib.version();
}

const char *gofi_strerror(int code)
{
	return gofi_lib.strerror(code);
}

#endif
