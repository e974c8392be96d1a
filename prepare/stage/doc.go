// Package stage copies or mounts inputs into a workspace and collects outputs from it.
//
// A [Stage] is a workspace with a layout: skills for working copies of skills,
// work for files that programs share, runs for the directory of each run, and out for
// results. The environment variables WORKSPACE_DIR, SKILLS_DIR, WORK_DIR, OUTPUT_DIR
// and RUN_DIR have the paths.
//
//	st, err := stage.New(ws, &stage.Options{State: state, Artifacts: artifacts})
//	err = st.PutFiles(ctx, []stage.File{{Path: "work/data.csv", Content: data}})
//	recs, err := st.StageInputs(ctx, []stage.Input{{From: "artifact://model@3", Pin: true}})
//	...
//	man, err := st.CollectOutputs(ctx, stage.OutputSpec{Globs: []string{"$OUTPUT_DIR/**"}, Save: true})
//
// # All or nothing
//
// Calls that stage several paths (PutFiles, StageInputs, StageDirectory) are
// transactions with a journal. New entries are created at temporary paths, and old
// entries are moved to temporary paths. The journal is saved in the [State] first, so
// the next call rolls back after a crash.
//
// # Where the metadata is
//
// A [State] outside the workspace records what was staged, collected and prepared, so
// a program inside can't forge it. metadata.json in the workspace is a copy for people
// and programs; Croft never reads it back.
//
// # What is prevented, what is not
//
// Package workspace checks paths: no target, glob or symlink leaves the workspace.
// host:// reads only below directories that the operator allowed
// ([Options.HostRoots]); without any, host:// is disabled. The content of a workspace
// is untrusted: names may have newlines and need not be UTF-8, files may be FIFOs or as
// large as the disk. No call blocks on a FIFO or reads a file of any size into memory.
// A collection is not a snapshot: a program that changes its files meanwhile gives a
// consistent state per file at most.
package stage
