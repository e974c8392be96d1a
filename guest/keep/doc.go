// Package keep finds, starts and ends the one guest of a workspace that has a
// directory of its own on this host: across processes, of which any may die at
// any instant. What a guest is, and which fence it stands in, is its provider's.
package keep
