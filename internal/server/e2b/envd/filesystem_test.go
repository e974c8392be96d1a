package envd_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
)

func TestFilesystem(t *testing.T) {
	h := newHost(t)
	for codec := range codecs {
		t.Run(codec, func(t *testing.T) {
			c := h.filesystem(codec)
			for _, base := range []string{"", "/home/user/", "/tmp/"} {
				t.Run(base, func(t *testing.T) { testFilesystem(t, h, c, base+codec) })
			}
		})
	}
}

// testFilesystem works in a directory of the workspace, or of the sandbox's file system.
func testFilesystem(t *testing.T, h *host, c envdpb.FilesystemClient, base string) {
	ctx := t.Context()
	abs := base
	if !strings.HasPrefix(base, "/") {
		abs = "/home/user/" + base
	}
	made, err := c.MakeDir(ctx, &envdpb.MakeDirRequest{Path: base + "/a/b"})
	if err != nil || made.GetEntry().GetPath() != abs+"/a/b" || made.GetEntry().GetType() != envdpb.FileType_FILE_TYPE_DIRECTORY || made.GetEntry().GetName() != "b" {
		t.Fatalf("made %v, %v", made, err)
	}
	_, err = c.MakeDir(ctx, &envdpb.MakeDirRequest{Path: base + "/a/b"})
	wantCode(t, "a directory that exists", err, connect.CodeAlreadyExists)
	h.bash("cd " + abs + "; echo hello > f; chmod 640 f; ln -s f link; ln -s a/b dirlink; ln -s gone broken; echo x > a/b/deep")
	_, err = c.MakeDir(ctx, &envdpb.MakeDirRequest{Path: base + "/f"})
	wantCode(t, "a file that exists", err, connect.CodeInvalidArgument)
	_, err = c.MakeDir(ctx, &envdpb.MakeDirRequest{Path: base + "/f/below"})
	wantCode(t, "below a file", err, connect.CodeInvalidArgument)

	got, err := c.Stat(ctx, &envdpb.StatRequest{Path: base + "/f"})
	if err != nil {
		t.Fatal(err)
	}
	e := got.GetEntry()
	if e.GetName() != "f" || e.GetPath() != abs+"/f" || e.GetType() != envdpb.FileType_FILE_TYPE_FILE || e.GetSize() != 6 || e.GetMode() != 0o640 ||
		e.GetPermissions() != "-rw-r-----" || e.GetOwner() != "user" || e.GetGroup() != "user" || time.Since(e.GetModifiedTime().AsTime()) > time.Hour || e.SymlinkTarget != nil {
		t.Errorf("a file is %v", e)
	}
	if got, err = c.Stat(ctx, &envdpb.StatRequest{Path: base + "/a"}); err != nil || got.GetEntry().GetSize() != 4096 {
		t.Errorf("a directory is %v, %v; want it to have a size, as programs for E2B expect", got, err)
	}
	if got, err = c.Stat(ctx, &envdpb.StatRequest{Path: base + "/link"}); err != nil || got.GetEntry().GetSymlinkTarget() != abs+"/f" || got.GetEntry().GetType() != envdpb.FileType_FILE_TYPE_FILE || got.GetEntry().GetPermissions()[0] != 'L' {
		t.Errorf("a symlink is %v, %v", got, err)
	}
	if got, err = c.Stat(ctx, &envdpb.StatRequest{Path: base + "/broken"}); err != nil || got.GetEntry().GetType() != envdpb.FileType_FILE_TYPE_UNSPECIFIED {
		t.Errorf("a broken symlink is %v, %v", got, err)
	}
	_, err = c.Stat(ctx, &envdpb.StatRequest{Path: base + "/none"})
	wantCode(t, "a missing path", err, connect.CodeNotFound)
	_, err = c.Stat(ctx, &envdpb.StatRequest{Path: base + "/f/none"})
	wantCode(t, "a path below a file", err, connect.CodeInvalidArgument)

	list := func(path string, depth uint32) []string {
		t.Helper()
		res, err := c.ListDir(ctx, &envdpb.ListDirRequest{Path: path, Depth: depth})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range res.GetEntries() {
			names = append(names, strings.TrimPrefix(e.GetPath(), abs+"/"))
			if e.GetOwner() != "user" {
				t.Errorf("listed %v", e)
			}
		}
		slices.Sort(names)
		return names
	}
	for _, tt := range []struct {
		path  string
		depth uint32
		want  string
	}{
		{base, 0, "a broken dirlink f link"},
		{base, 1, "a broken dirlink f link"},
		{base, 2, "a a/b broken dirlink f link"},
		{base, 1 << 31, "a a/b a/b/deep broken dirlink f link"},
		{base + "/dirlink", 1, "dirlink/deep"},
	} {
		if got := strings.Join(list(tt.path, tt.depth), " "); got != tt.want {
			t.Errorf("list %s to depth %d: %s, want %s", tt.path, tt.depth, got, tt.want)
		}
	}
	_, err = c.ListDir(ctx, &envdpb.ListDirRequest{Path: base + "/f"})
	wantCode(t, "list a file", err, connect.CodeInvalidArgument)
	_, err = c.ListDir(ctx, &envdpb.ListDirRequest{Path: base + "/none"})
	wantCode(t, "list what is missing", err, connect.CodeNotFound)

	moved, err := c.Move(ctx, &envdpb.MoveRequest{Source: base + "/f", Destination: base + "/new/g"})
	if err != nil || moved.GetEntry().GetPath() != abs+"/new/g" || moved.GetEntry().GetSize() != 6 {
		t.Errorf("moved %v, %v", moved, err)
	}
	moved, err = c.Move(ctx, &envdpb.MoveRequest{Source: base + "/new/g", Destination: "/var/tmp/" + abs + "-g"})
	if err != nil || moved.GetEntry().GetSize() != 6 {
		t.Errorf("moved out %v, %v", moved, err)
	}
	_, err = c.Move(ctx, &envdpb.MoveRequest{Source: base + "/none", Destination: base + "/x"})
	wantCode(t, "move what is missing", err, connect.CodeNotFound)
	for range 2 { // the second finds nothing
		if _, err := c.Remove(ctx, &envdpb.RemoveRequest{Path: base}); err != nil {
			t.Error(err)
		}
	}
	_, err = c.Stat(ctx, &envdpb.StatRequest{Path: base})
	wantCode(t, "what was removed", err, connect.CodeNotFound)
}

// bash runs a script in the sandbox.
func (h *host) bash(script string) string {
	h.t.Helper()
	out, err := h.box.Workspace.Script(h.t.Context(), "set -e\n"+script).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// TestPathsOutside never leaves the sandbox, wherever a path or a symlink leads.
func TestPathsOutside(t *testing.T) {
	h := newHost(t)
	c := h.filesystem("json")
	h.bash("ln -s /etc/passwd inside; ln -s /root/secret away; echo sandbox > /tmp/x")
	got, err := c.Stat(t.Context(), &envdpb.StatRequest{Path: "inside"})
	if err != nil || got.GetEntry().GetSymlinkTarget() != "/etc/passwd" || got.GetEntry().GetType() != envdpb.FileType_FILE_TYPE_FILE {
		t.Errorf("a symlink out of the workspace is %v, %v", got, err)
	}
	if status, body := h.get("/files?path=inside"); status != 200 || !strings.Contains(body, "user:x:1000:1000::/home/user") || strings.Count(body, "\n") != 3 {
		t.Errorf("/etc/passwd is %d %q, want that of the sandbox", status, body)
	}
	if status, body := h.get("/files?path=../../tmp/x"); status != 200 || body != "sandbox\n" {
		t.Errorf("got %d %q", status, body)
	}
	_, err = c.MakeDir(t.Context(), &envdpb.MakeDirRequest{Path: "/usr/new"})
	wantCode(t, "the system", err, connect.CodePermissionDenied)
	_, err = c.Remove(t.Context(), &envdpb.RemoveRequest{Path: "~"})
	wantCode(t, "the home", err, connect.CodeInvalidArgument)
	_, err = c.Stat(t.Context(), &envdpb.StatRequest{Path: "a\x00b"})
	wantCode(t, "a NUL byte", err, connect.CodeInvalidArgument)
	_, err = c.Stat(t.Context(), &envdpb.StatRequest{Path: strings.Repeat("x/", 5000)})
	wantCode(t, "a long path", err, connect.CodeInvalidArgument)
}

// wantEvents checks that events has those of want, in any order and among others.
func wantEvents(t *testing.T, next func() []*envdpb.FilesystemEvent, want map[string]envdpb.EventType) []*envdpb.FilesystemEvent {
	t.Helper()
	var all []*envdpb.FilesystemEvent
	missing := map[string]envdpb.EventType{}
	for k, v := range want {
		missing[k] = v
	}
	for deadline := time.Now().Add(20 * time.Second); len(missing) > 0 && time.Now().Before(deadline); {
		for _, e := range next() {
			all = append(all, e)
			if missing[e.GetName()] == e.GetType() {
				delete(missing, e.GetName())
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("missing %v in %v", missing, all)
	}
	return all
}

//croft:race
func TestWatch(t *testing.T) {
	h := newHost(t)
	c := h.filesystem("binary")
	h.bash("mkdir -p w/sub; echo x > w/old; echo x > w/gone")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := c.WatchDir(ctx, &envdpb.WatchDirRequest{Path: "w", Recursive: true, IncludeEntry: true})
	if err != nil || !s.Receive() || s.Msg().GetStart() == nil {
		t.Fatal(err, s.Err())
	}
	poll, err := c.CreateWatcher(ctx, &envdpb.CreateWatcherRequest{Path: "/home/user/w"})
	if err != nil {
		t.Fatal(err)
	}
	h.bash("echo y > w/new; echo y > w/old; rm w/gone; chmod 600 w/old; echo z > w/sub/deep")
	changes := map[string]envdpb.EventType{"new": envdpb.EventType_EVENT_TYPE_CREATE, "gone": envdpb.EventType_EVENT_TYPE_REMOVE}
	deep := map[string]envdpb.EventType{"sub/deep": envdpb.EventType_EVENT_TYPE_CREATE, "new": envdpb.EventType_EVENT_TYPE_CREATE, "gone": envdpb.EventType_EVENT_TYPE_REMOVE}
	for _, e := range wantEvents(t, func() []*envdpb.FilesystemEvent {
		if !s.Receive() {
			t.Fatal(s.Err())
		}
		return []*envdpb.FilesystemEvent{s.Msg().GetFilesystem()}
	}, deep) {
		if e.GetName() == "new" && (e.GetEntry().GetPath() != "/home/user/w/new" || e.GetEntry().GetOwner() != "user") {
			t.Errorf("the entry is %v", e.GetEntry())
		}
	}
	all := wantEvents(t, func() []*envdpb.FilesystemEvent {
		res, err := c.GetWatcherEvents(ctx, &envdpb.GetWatcherEventsRequest{WatcherId: poll.GetWatcherId()})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetEvents()
	}, changes)
	for _, e := range all {
		if e.GetName() == "sub/deep" || e.Entry != nil {
			t.Errorf("a watch that is not recursive, without entries, has %v", e)
		}
	}
	if _, err := c.RemoveWatcher(ctx, &envdpb.RemoveWatcherRequest{WatcherId: poll.GetWatcherId()}); err != nil {
		t.Error(err)
	}
	_, err = c.GetWatcherEvents(ctx, &envdpb.GetWatcherEventsRequest{WatcherId: poll.GetWatcherId()})
	wantCode(t, "a watcher that was removed", err, connect.CodeNotFound)
	_, err = c.RemoveWatcher(ctx, &envdpb.RemoveWatcherRequest{WatcherId: poll.GetWatcherId()})
	wantCode(t, "a watcher that was removed", err, connect.CodeNotFound)
	for path, want := range map[string]connect.Code{"/tmp": connect.CodeInvalidArgument, "w/old": connect.CodeInvalidArgument, "none": connect.CodeNotFound} {
		_, err = c.CreateWatcher(ctx, &envdpb.CreateWatcherRequest{Path: path})
		wantCode(t, "watch "+path, err, want)
	}
	if _, err = c.CreateWatcher(ctx, &envdpb.CreateWatcherRequest{Path: "w"}); err != nil { // Close waits for it
		t.Error(err)
	}
	h.srv.Forget(h.box.ID)
}

// TestWatcherQueueIsBounded changes more than a watcher keeps.
//
//croft:race
func TestWatcherQueueIsBounded(t *testing.T) {
	h := newHost(t)
	c := h.filesystem("binary")
	poll, err := c.CreateWatcher(t.Context(), &envdpb.CreateWatcherRequest{Path: "."})
	if err != nil {
		t.Fatal(err)
	}
	h.bash("for i in $(seq 6000); do : > f$i; done; rm f*; for i in $(seq 6000); do : > f$i; done")
	for range 600 {
		// Reading would empty the queue.
		_, err = h.filesystem("json").Stat(t.Context(), &envdpb.StatRequest{Path: "f6000"})
		if err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second)
	for range 100 {
		if _, err = c.GetWatcherEvents(t.Context(), &envdpb.GetWatcherEventsRequest{WatcherId: poll.GetWatcherId()}); err != nil {
			break
		}
	}
	wantCode(t, "a full queue", err, connect.CodeResourceExhausted)
}

// get gets a path of envd with the token.
func (h *host) get(path string, header ...string) (status int, body string) {
	h.t.Helper()
	res, body := h.do(http.MethodGet, path, "", append([]string{"X-Access-Token: " + token}, header...)...)
	return res.StatusCode, body
}
