// Package kube tests the YAML of docs/how-to/kubernetes.md with the types of Kubernetes' API.
package kube
