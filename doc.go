// Package croft is the root of the module; it holds no code but the tests that
// keep the house in order. Programs that use workspaces import the packages
// below: workspace for the API, registry for identity, workspace/driver to write
// a provider, workspace/workspacetest to prove one. ARCHITECTURE.md is the map.
package croft
