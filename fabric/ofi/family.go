package ofi

// family is the part of the provider names before the slash.
const family = "ofi"
