// Package history goes back and forth in what a workspace was, and brings what
// became of one into another.
//
// Snapshots of a workspace are states that it had. [Record] puts them into their
// order: each state has the one that it came from, also where somebody went back
// and went on from there. [Undo] and [Redo] walk along it. [Checkpoints] leaves a
// state behind after each step that an agent takes, labelled with what was done,
// and forgets those that are too many or too old.
//
// [Apply] merges what changed in one workspace into another, three ways, against
// what the first one started from.
//
// Everything here works on a [workspace.Workspace], wherever it is.
package history
