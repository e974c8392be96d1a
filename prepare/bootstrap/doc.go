// Package bootstrap brings a workspace to a state that was described: what must
// exist before anyone works in it.
//
// A [Spec] lists what is wanted: a template, files, skills, and commands. Apply
// compares it with what is there and does what is missing, in that order and, within
// each kind, in the order of declaration:
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
// Each entry has a fingerprint of all that it says (content, mode, environment,
// directory, inputs, salt). It is done where there is no record of it, where the
// fingerprint changed, or where what it made is not as it was: a file that was
// edited or removed, a marker or an observed path that is gone. Otherwise nothing
// is started, and nothing is read whose size, time and mode are what they were.
//
// # What survives
//
// Each entry is recorded when it is done, in the memory of package stage, which no
// program inside can change. A process that is killed leaves what it had done, and
// the next Apply goes on from there. Two processes that prepare one workspace take
// turns; the second finds everything done.
//
// An optional entry that fails is a warning in the report. It is not tried again
// until it is changed, and says so each time.
//
// Templates and bootstrap commands as skillgym has them are [Template]; callbacks
// that run once, when a workspace was made, are [Hook].
package bootstrap
