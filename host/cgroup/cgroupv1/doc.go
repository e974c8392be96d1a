// Package cgroupv1 makes control groups of version 1, where each controller has a
// hierarchy of its own. Package cgroup chooses between it and version 2.
package cgroupv1
