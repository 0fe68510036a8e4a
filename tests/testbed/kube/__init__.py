# SPDX-License-Identifier: Apache-2.0

"""A real Kubernetes control plane and NFD on loopback, without containers.

etcd, kube-apiserver, nfd-master and nfd-workers run as plain processes;
Nodes are objects without a kubelet. The standard library is all it takes.
"""
