// Package bootstrap reconciles a workspace with a declared state: template, files,
// skills and commands that must exist before the workspace is used.
//
// A [Spec] lists what is wanted: a template, files, skills, and commands. Apply
// compares the Spec with the workspace and does what is missing, in that order and,
// within each kind, in the order of declaration:
//
//	r := bootstrap.New(st, nil)
//	report, err := r.Apply(ctx, bootstrap.Spec{
//		Files:    []bootstrap.File{{Target: "work/requirements.txt", Content: reqs}},
//		Commands: []bootstrap.Command{{
//			Cmd: "pip", Args: []string{"install", "-r", "work/requirements.txt"},
//			FingerprintInputs: []string{"work/requirements.txt"}, ObservedPaths: []string{".venv"},
//		}},
//	})
//
// # What is done again
//
// Each entry has a fingerprint of its declaration (content, mode, environment,
// directory, inputs, salt). Apply does an entry if there is no record of it, if the
// fingerprint changed, or if its result drifted: a file was edited or removed, or a
// marker or an observed path is gone. Otherwise nothing is started, and no file with
// unchanged stat data is read.
//
// # What survives
//
// Each entry is recorded when it is done, in the state of package stage, which no
// program inside the workspace can change. After a crash the next Apply continues
// with the first entry that is not recorded. Two processes that prepare one workspace
// are serialized by a lock; the second finds everything done.
//
// A failed optional entry is a warning in the report. It is not tried again until its
// declaration changes; each report repeats the warning.
//
// [Template] has templates and bootstrap commands as in skillgym. A [Hook] is a
// callback that runs once, after a workspace was created.
package bootstrap
