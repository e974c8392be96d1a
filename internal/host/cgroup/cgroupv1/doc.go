// Package cgroupv1 creates Linux cgroups of version 1, where each controller has its own
// hierarchy.
//
// Package cgroup chooses between it and version 2.
package cgroupv1
