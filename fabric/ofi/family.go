package ofi

// The constant "family" is the part of a provider name before the slash.
const family = "ofi"
