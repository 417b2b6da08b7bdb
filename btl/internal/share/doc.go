// Package share divides a common resource between endpoints by dynamic thresholds. The dynamic
// thresholds determine whether an endpoint is allowed to take one more item of the resource.
//
// By the dynamic threshold of Choudhury and Hahne (1998), an endpoint may hold at most as many
// items as are free. A part of the resource, the reserve, is only for endpoints that hold few
// items. Without the reserve, the endpoints of stalled peers could together use up the resource.
// Endpoints that hold few items share the first half of the reserve by a dynamic threshold. The
// second half of the reserve is only for endpoints of hosts that hold no item, so that many peers
// can stall before the resource is used up.
//
//	|<----------------------- all ----------------------->|
//	|  held, by all  |    free    |         reserve       |
//	|                |            |   few   |  one each   |
//	                  as many as are free here may one of several hold
//
// A host threshold limits the items that all endpoints of one host may hold together. The host
// threshold is as high as the threshold of a single endpoint. Without the host threshold, one host
// could use up the resource with many endpoints. The host threshold does not apply to the first
// item of an endpoint, so that an endpoint can make progress while the other endpoints of its host
// hold many items. While all endpoints belong to the same host, the host threshold does not apply
// at all. Even the first item of an endpoint is not taken from the second half of the reserve if
// the endpoint's host holds an item, because many endpoints of a few hosts could otherwise use up
// the resource.
//
// The counts of a host are in its Host, to which each endpoint of the host has a pointer. Waiters
// contains the endpoints that wait for a resource, and lets their hosts take turns.
package share
