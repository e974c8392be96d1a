// Package e2e has the end-to-end tests: the built program under real agent
// CLIs, protocol inspectors and the documentation's own code blocks.
package e2e
