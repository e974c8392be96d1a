// Package history implements undo and redo over a workspace's snapshots,
// checkpoints after each step, and merging the changes of one workspace into
// another.
//
// Snapshots of a workspace are its former states. [Record] orders them: each state
// has its parent, also after a rollback. [Undo] and [Redo] walk along it.
// [Checkpoints] takes a snapshot after each step of an agent, labelled with the
// step, and deletes old and surplus ones.
//
// [Apply] merges the changes of one workspace into another, by a three-way merge
// against the origin of the first one.
//
// Everything here works on a [workspace.Workspace] of any provider.
package history
