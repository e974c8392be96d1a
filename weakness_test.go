package croft

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// weaknesses are what was measured of trpc-agent-go's code executor, each with the
// tests that show it otherwise here. Its numbers are in docs/benchmarks.md.
var weaknesses = []struct {
	what  string
	tests []string // package.Test
}{
	// Layout, environment, policies.
	{"the root of a workspace is open to all", []string{"contrib/trpcagent.TestWorkspaceIsClosedToOthers"}},
	{"a long or odd id can't be created", []string{"contrib/trpcagent.TestRunProgram"}},
	{"two workspaces of one id, or a stale one, meet", []string{"contrib/trpcagent.TestPolicies", "registry.TestConcurrentFirstCallsMakeOneOpen"}},
	{"the policy of a workspace (isolation, disk, persistence) is ignored", []string{"contrib/trpcagent.TestPolicies"}},
	{"Cleanup removes any path that it is handed", []string{"contrib/trpcagent.TestPolicies"}},
	{"two runs of one millisecond share a directory", []string{"stage.TestRunsNeverMeet"}},
	{"programs inherit the host's environment", []string{"contrib/trpcagent.TestRunProgram", "posix/process.TestBaseEnvDefaults"}},
	// PutFiles.
	{"a planted symlink leads a write out", []string{"stage.TestPlantedSymlinks"}},
	{"an absolute path silently becomes another", []string{"stage.TestTargetsStayInside"}},
	{"a mode is ignored, or cut by the umask", []string{"stage.TestPutFiles"}},
	{"the first files stay when a later one fails", []string{"stage.TestPutFilesIsAllOrNothing"}},
	{"a reader sees half of a write", []string{"provider/local.TestConformance"}},
	// StageDirectory.
	{"stale files stay in a directory that is staged again", []string{"stage.TestStageDirectory"}},
	{"AllowMount is ignored", []string{"stage.TestStageByMount", "provider/sandbox.TestImportByMountKeepsTheSourceAsItIs"}},
	{"a target may lead out", []string{"stage.TestTargetsStayInside"}},
	{"symlinks are dereferenced, or end the staging", []string{"stage.TestStageDirectory", "stage.TestDirectoryBehindASymlink"}},
	{"a FIFO in the tree hangs for ever, whatever the context", []string{"stage.TestStageDirectory", "stage.TestHostileHostTree", "stage.TestDirectoryThatIsCutShort"}},
	{"a large file is read into memory", []string{"stage.TestHugeFiles"}},
	{"what is read-only can't be cleaned up or staged again", []string{"stage.TestReadOnlyDirectory"}},
	{"a program makes what is read-only writable by chmod", []string{"provider/sandbox.TestImportReadOnlyHoldsAgainstChmod"}},
	// StageInputs.
	{"an unknown mode is taken for copy", []string{"stage.TestInputsThatAreRefused"}},
	{"a directory lands beside where it should, a single file of the host not at all", []string{"stage.TestStageInputs"}},
	{"a link over a victim deletes it", []string{"stage.TestTargetsStayInside"}},
	{"workspace:// reads outside", []string{"stage.TestTargetsStayInside"}},
	{"host:// reads anything, and a model may name it", []string{"stage.TestInputsThatAreRefused", "contrib/trpcagent.TestTheirSkills"}},
	{"earlier inputs stay, unrecorded, when a later one fails", []string{"stage.TestInputsAreAllOrNothing", "stage.TestNothingIsHalfRecorded"}},
	{"the history grows for ever", []string{"stage.TestHistoryIsBounded"}},
	{"damaged metadata is replaced in silence", []string{"stage.TestDirState"}},
	// Collect and CollectOutputs.
	{"a root with pattern characters collects nothing", []string{"stage.TestRootWithPatternCharacters"}},
	{"no braces behind a fence, and names with newlines are torn", []string{"stage.TestCollectOutputs"}},
	{"a truncated file that is to be saved fails everything", []string{"stage.TestNoWallAtFourMiB"}},
	{"a name template is only a prefix", []string{"stage.TestNaming"}},
	{"outputs are not recorded everywhere", []string{"stage.TestStoreThatFailsHalfWay"}},
	{"JSON, CSV, Markdown and SVG are plain text", []string{"stage.TestCollectOutputs"}},
	{"symlinks are followed out", []string{"stage.TestSymlinksAreNotFollowedOut"}},
	{"one broken link fails everything", []string{"stage.TestSymlinksAreNotFollowedOut"}},
	{"overlapping patterns return duplicates", []string{"stage.TestCollectOutputs"}},
	{"nothing above 4 MiB can be taken or saved", []string{"stage.TestNoWallAtFourMiB", "contrib/trpcagent.TestTheirSaveArtifact"}},
	{"what was saved before a failure is not reported", []string{"stage.TestStoreThatFailsHalfWay"}},
	{"after the limit of all bytes an entry of a second pattern is added", []string{"stage.TestLimitsOfOutputs"}},
	// Digests, patterns, metadata.
	{"different trees have one digest", []string{"stage.TestDigests"}},
	{"a variable's name has no end, RUN_DIR is not known", []string{"stage.TestNormalizeGlobs", "stage.TestRunDirOfOutputs"}},
	{"metadata can be forged by a program", []string{"stage.TestMetadataCannotBeForged"}},
	{"metadata has no lock among processes", []string{"stage.TestDirState", "bootstrap.TestTwoAtOnce"}},
	{"a crash leaves half of a staging", []string{"stage.TestKilledAtAnyPoint"}},
	// RunProgram.
	{"a time-out ends the leader alone, or nothing", []string{"contrib/trpcagent.TestRunProgram", "contrib/trpcagent.TestTheirWorkspaceExec", "posix/process.TestTreesEndWhole"}},
	{"a child in the background makes a run time out", []string{"contrib/trpcagent.TestRunProgram"}},
	{"limits are ignored", []string{"contrib/trpcagent.TestLimitsHoldOrAreRefused"}},
	{"output has no cap", []string{"contrib/trpcagent.TestRunProgram"}},
	{"a missing program says nothing", []string{"contrib/trpcagent.TestRunProgram"}},
	{"a working directory leads out", []string{"contrib/trpcagent.TestRunProgram"}},
	{"a context that ends is no error", []string{"contrib/trpcagent.TestCancelledRunIsAnError"}},
	{"signals have no name", []string{"posix/process.TestSignals"}},
	// Sessions.
	{"a prompt comes with every poll, lines are glued", []string{"contrib/trpcagent.TestSessionOutputComesOnce", "contrib/trpcagent.TestTheirWorkspaceExec"}},
	{"the streams share a buffer", []string{"contrib/trpcagent.TestSessionOutputComesOnce"}},
	{"no end of input, no signals, no size of a terminal", []string{"contrib/trpcagent.TestSessionControls"}},
	{"a kill leaves children, and does not wait", []string{"contrib/trpcagent.TestSessionEndsWholeAndOutlivesItsRequest"}},
	{"a session dies with the request that started it", []string{"contrib/trpcagent.TestSessionEndsWholeAndOutlivesItsRequest"}},
	{"output of sessions is not bounded", []string{"posix/process.TestFloodKeepsMemorySmall"}},
	// Registry.
	{"nothing expires, is released or survives a restart; policies are not passed on", []string{"registry.TestIdleWorkspacesExpire", "registry.TestDestroyEndsEverything", "registry.TestTwoRegistriesOpenOnce"}},
	// Init hooks, bootstrap.
	{"a failed hook's output is cut, its workspace leaks", []string{"bootstrap.TestHooks"}},
	{"edited files are not repaired, modes not applied", []string{"bootstrap.TestFilesConverge"}},
	{"what is no longer wanted is never undone", []string{"bootstrap.TestFilesConverge", "bootstrap.TestSkillsConverge"}},
	{"commands that differ in environment or directory are one", []string{"bootstrap.TestCommandsConverge"}},
	{"an empty file panics", []string{"bootstrap.TestFilesConverge"}},
	{"what comes from the host is staged each time, and its changes are not seen", []string{"bootstrap.TestInputsConverge"}},
	{"an optional command that fails is run each time, and nobody is told", []string{"bootstrap.TestCommandsThatFail"}},
	{"ten seconds for an installation, and no word of why it failed", []string{"bootstrap.TestCommandsThatFail"}},
	{"a directory that is observed never exists behind a fence", []string{"bootstrap.TestCommandsConverge"}},
	{"a reconcile with nothing to do reads and runs things", []string{"bootstrap.TestNoOpTouchesNothing"}},
	// Code blocks, artifacts.
	{"ticks within a line, longer fences, tildes and info strings confuse it", []string{"codeblock.TestExtract", "contrib/trpcagent.TestExecuteCode"}},
	{"the exit status of code is always 0", []string{"contrib/trpcagent.TestExecuteCode"}},
	{"a version that is too large wraps around", []string{"stage.TestInputsThatAreRefused"}},
	// Backends.
	{"Jupyter: text alone, no time-out, one kernel, no fence", []string{"jupyter.TestAContext", "jupyter.TestWithoutAContext", "provider/wrap/coded.TestConformanceOverASandbox"}},
	{"sandbox: no sessions, no terminals, no limits, one run at a time", []string{"contrib/trpcagent.TestSessionControls", "contrib/trpcagent.TestLimitsHoldOrAreRefused", "provider/sandbox.TestConformance"}},
	{"what one session leaves is seen by another", []string{"provider/sandbox.TestEscapesAtEveryLevel"}},
}

// TestWeaknessesHaveTests: every weakness has tests, and they exist.
func TestWeaknessesHaveTests(t *testing.T) {
	for _, w := range weaknesses {
		if len(w.tests) == 0 {
			t.Errorf("%s: no test", w.what)
		}
		for _, name := range w.tests {
			if !testExists(t, name) {
				t.Errorf("%s: there is no test %s", w.what, name)
			}
		}
	}
}

// testExists looks for a test by its package and name.
func testExists(t *testing.T, name string) bool {
	t.Helper()
	pkg, test, _ := strings.Cut(name, ".")
	files, err := filepath.Glob(filepath.Join(".", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^func ` + test + `\(t \*testing\.T\)`).Match(data) {
			return true
		}
	}
	return false
}
