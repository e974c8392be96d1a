// Package stage brings files into a workspace and takes results out of it.
//
// A [Stage] is a workspace with a layout: skills for working copies of skills,
// work for what programs share, runs for the directory of each run, and out for
// results. Programs learn where these are from WORKSPACE_DIR, SKILLS_DIR,
// WORK_DIR, OUTPUT_DIR and RUN_DIR.
//
//	st, err := stage.New(ws, &stage.Options{State: state, Artifacts: artifacts})
//	err = st.PutFiles(ctx, []stage.File{{Path: "work/data.csv", Content: data}})
//	recs, err := st.StageInputs(ctx, []stage.Input{{From: "artifact://model@3", Pin: true}})
//	...
//	man, err := st.CollectOutputs(ctx, stage.OutputSpec{Globs: []string{"$OUTPUT_DIR/**"}, Save: true})
//
// # All or nothing
//
// What brings several things in (PutFiles, StageInputs, StageDirectory) either
// brings all of them or leaves everything as it was. New things are made aside,
// what they replace is moved aside, and a crash in between is put right by the
// next call: what was being done is noted in the [State] first.
//
// # Where the memory is
//
// What was staged, collected and prepared is remembered in a [State], outside the
// workspace, so that a program inside can't forge it. metadata.json in the
// workspace is a copy for people and programs to read; nothing reads it back.
//
// # What is prevented, what is not
//
// Paths are judged by package workspace: no target, glob or symlink leads out.
// host:// reads only below directories that the operator allowed
// ([Options.HostRoots]); with none, there is no host://. Whatever a workspace
// holds is data: names may have newlines and need not be UTF-8, files may be FIFOs
// or as large as the disk, and no call here waits for one or reads the other into
// memory. A program that keeps changing its files while they are collected gets
// what it had at some moment, file by file.
package stage
