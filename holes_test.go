package croft

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holes are the ways in which servers of this kind are known to fail their users,
// each with the tests that show it closed here.
var holes = []struct {
	hole  string
	tests []string // package.Test
}{
	{"a page in a browser calls tools", []string{"daemon/command.TestNoPageInABrowserGetsIn"}},
	{"read-only mode executes code and writes", []string{"daemon/command.TestReadOnlyChangesNothing", "daemon/command.TestReadOnlyByTheKernel", "tool.TestReadOnlyOffersWhatChangesNothing"}},
	{"a symlink is swapped between check and use", []string{"tool.TestSymlinkRace", "posix/boundary.TestSwappedSymlink"}},
	{"commands see the host's files, and secrets in their environment", []string{"daemon/command.TestAgentOverStdio", "daemon/command.TestSecretNeverEnters", "provider/sandbox.TestEscapesAtEveryLevel"}},
	{"children with a session of their own outlive a kill", []string{"tool.TestKillShell", "posix/process.TestTreesEndWhole", "posix/process.TestSubreaperKillsStraysAndReapsOrphans"}},
	{"a call goes on after it was cancelled, or its client went away", []string{"tool.TestCancelStopsTheCommand", "mcpserver.TestVanishedClientsEndTheirCalls", "daemon/command.TestNothingRunsWithoutItsClient"}},
	{"a list of forbidden programs refuses words and misses programs", []string{"posix/guard.TestDenyLetsArgumentsPass", "posix/guard.TestDenyScripts", "posix/guard.TestProgramsByPath"}},
	{"secrets get through, encoded or of other kinds", []string{"secret.TestScrubEncodings", "secret.TestPatternsHide", ".TestToolsHideSecretsByForm"}},
	{"ordinary code is hidden, so that what was read can't be edited", []string{"secret.TestPatternsKeepCode", "secret.TestPatternsKeepTheStandardLibrary", ".TestToolsHideSecretsByForm"}},
	{"reading a FIFO hangs", []string{"tool.TestReadOfAFIFODoesNotWait"}},
	{"a message may be of any size", []string{".TestMessagesAreBounded"}},
	{"an edit loses mode, owner and links", []string{"tool.TestEditKeepsTheMode", "tool.TestEditKeepsTheOwner", "tool.TestApplyPatchTakesBack", "posix/boundary.TestWriteKeepsModeOwnerAndXattrs", "posix/boundary.TestWriteAndHardLinks"}},
	{"a file that changed since it was read is overwritten", []string{"tool.TestWriteWantsWhatWasRead", "tool.TestEditWantsTheLinesRead"}},
	{"what one client read counts for another, or for another workspace", []string{"tool.TestReadScope", "tool.TestReadingUnlocksOnlyThatWorkspace", "mcpserver.TestSessionsAreForgotten"}},
	{"snapshots miss files, names and kinds, and run the repository's programs", []string{"tool/snapshots.TestRestoreIsWhole", "snapshot.TestRandomTrees", "snapshot.TestDiffTellsEveryKind", "snapshot.TestApplyBranch"}},
	{"output of a short background command is lost", []string{"tool.TestBackgroundOutputIsWhole"}},
	{"a command that leaves a child behind stalls and loses its output", []string{"posix/process.TestForegroundLeavesNothingBehind", "posix/process.TestOutputAfterTheLeader"}},
	{"much output takes much memory", []string{"posix/process.TestFloodKeepsMemorySmall", "provider/sandbox.TestOutputFloodCostsNoMemory", "daemon/command.TestMuchOutputTakesLittleMemory", "tool.TestLargeOutput"}},
	{"the failed tests that are run again are none", []string{"tool/check.TestFixingATest", "tool/check.TestARenamedTestIsNotASuccess", ".TestAgents"}},
	{"code that does not compile is no failure, and long output hides failures", []string{"tool/verify.TestGoThatDoesNotCompile", "tool/verify.TestLongOutput"}},
	{"search goes stale", []string{"tool/index.TestSearchStaysFresh"}},
	{"a language server is frozen, stays dead, or counts columns wrong", []string{"tool/lsp.TestServerFollowsEdits", "tool/lsp.TestServerComesBack", "tool/lsp.TestPositions"}},
	{"searches skip .github, drop names and take directories for flags", []string{"tool.TestGlob", "tool.TestGrep", "posix/boundary.TestGrepSaysWhatItSkipped"}},
	{"an edit lints the whole repository, for the wrong language, in silence", []string{"tool/verify.TestAfterEdit", "tool/verify.TestAfterEditIsBounded", "tool/verify.TestAfterEditSilencesNothing", "tool/check.TestAfterAnEditInAMixedProject"}},
	{"documents list tools that are not there", []string{"tool/all.TestPage", ".TestAgents"}},
}

// TestHolesAreClosed: every hole has tests, and they exist.
func TestHolesAreClosed(t *testing.T) {
	for _, h := range holes {
		for _, name := range h.tests {
			if !testExists(t, name) {
				t.Errorf("%s: there is no test %s", h.hole, name)
			}
		}
	}
}

// TestToolsHideSecretsByForm: what looks like a secret is not shown, whichever way
// it gets into an answer; and code that talks about secrets is shown as it is, so
// that it can be edited.
func TestToolsHideSecretsByForm(t *testing.T) {
	croft := buildCroft(t)
	env, dir := mcpEnv(t, croft), t.TempDir()
	const key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEY"
	const code = "password = getPassword()\ntoken = parse(x)\n"
	put(t, "", dir, map[string]string{".env": "AWS_SECRET_ACCESS_KEY=" + key + "\n", "login.py": code})
	call := func(tool, args string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(croft, "croft"), "tool", tool, args, "--workspace", dir)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s(%s): %v\n%s", tool, args, err, out)
		}
		return string(out)
	}
	for tool, args := range map[string]string{
		"Read": `{"file_path": ".env"}`,
		"Grep": `{"pattern": "SECRET", "output_mode": "content"}`,
		"Bash": `{"command": "cat .env"}`,
	} {
		if got := call(tool, args); strings.Contains(got, key[:12]) || !strings.Contains(got, "AWS_SECRET_ACCESS_KEY=[REDACTED:secret-assignment]") {
			t.Errorf("%s shows %q", tool, got)
		}
	}
	if got, want := call("Read", `{"file_path": "login.py"}`), "1\tpassword = getPassword()\n2\ttoken = parse(x)\n"; got != want {
		t.Errorf("Read shows %q, want %q", got, want)
	}
}

// TestMessagesAreBounded: a message that is too large is refused, and the server
// goes on.
func TestMessagesAreBounded(t *testing.T) {
	croft := buildCroft(t)
	addr := startHTTP(t, croft, t.TempDir(), mcpEnv(t, croft))
	post := func(body io.Reader) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0 // it hung up on us, which refuses, too
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := post(io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`), bytes.NewReader(bytes.Repeat([]byte("x"), 40<<20)))); got != 0 && got < 400 {
		t.Errorf("40 MiB are answered with status %d", got)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	if got := post(strings.NewReader(hello)); got != http.StatusOK {
		t.Errorf("the next message is answered with status %d", got)
	}
}
