package app_test

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/backup"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/filestore"
	"github.com/croft-run/croft/workspace/driver"
)

// TestStoreInABucket: snapshots and artifacts are in the bucket, here a directory, and not in the data
// directory.
func TestStoreInABucket(t *testing.T) {
	dir := t.TempDir()
	settings := offerAll()
	settings.Store.Bucket = "file://" + filepath.Join(dir, "bucket")
	sys := openSystem(t, app.Config{DataDir: filepath.Join(dir, "data"), Settings: settings})
	c, err := sys.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	created, err := c.Create(t.Context(), driver.Spec{Kind: filestore.Kind})
	if err != nil {
		t.Fatal(err)
	}
	ws, _, err := c.Attach(t.Context(), created.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.FS.Write(t.Context(), "f", strings.NewReader("content"), &driver.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SaveArtifact(t.Context(), created.ID, "report", "text/plain", strings.NewReader("text")); err != nil {
		t.Fatal(err)
	}
	body, _, err := c.OpenArtifact(t.Context(), created.ID, "report", -1)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "text" {
		t.Errorf("the artifact is %q, %v", got, err)
	}
	for _, name := range []string{"store/packs", "store/snapshots", "artifacts"} {
		if _, err := os.Stat(filepath.Join(dir, "data", name)); err == nil {
			t.Errorf("%s is in the data directory", name)
		}
		found := 0
		err := filepath.WalkDir(filepath.Join(dir, "bucket", name), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				found++
			}
			return err
		})
		if err != nil || found == 0 {
			t.Errorf("%s has %d files in the bucket, %v", name, found, err)
		}
	}
	if _, err := sys.Backups.Write(t.Context(), io.Discard, backup.Options{}); fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "store.bucket") {
		t.Errorf("back up: %v, want Unsupported that names store.bucket", err)
	}
	settings.Store.Bucket = "file://" + filepath.Join(dir, "other", "bucket")
	if _, err := app.Open(t.Context(), app.Config{DataDir: filepath.Join(dir, "other"), Settings: settings}); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("a bucket in the data directory: %v, want PermissionDenied", err)
	}
}

// TestServeNeedsItsBucket: a server does not start with a bucket that is missing, or not its own. One
// that does not answer is no reason.
func TestServeNeedsItsBucket(t *testing.T) {
	address := testenv.NeedsS3(t)
	serve := func(bucket string) error {
		t.Helper()
		settings := offerAll()
		settings.Store.Bucket = bucket
		sys := openSystem(t, app.Config{DataDir: t.TempDir(), Settings: settings})
		l, err := app.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- sys.Serve(ctx, l) }()
		for {
			select {
			case err := <-done:
				return err
			case <-time.After(20 * time.Millisecond):
			}
			if res, err := http.Get("http://" + l.Addr().String() + "/healthz"); err == nil {
				res.Body.Close()
				cancel()
				return <-done
			}
		}
	}
	for _, bucket := range []string{address, address + "&prefix=team/", "file://" + t.TempDir() + "/new"} {
		if err := serve(bucket); err != nil {
			t.Errorf("with the bucket %s: %v", bucket, err)
		}
	}
	if err := serve(strings.Replace(address, "s3://snapshots", "s3://missing", 1)); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "store.bucket") {
		t.Errorf("without one: %v, want InvalidArgument that names store.bucket", err)
	}
	down, err := testenv.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve("s3://snapshots?region=us-east-1&use_path_style=true&disable_https=true&endpoint=http://" + down); err != nil {
		t.Errorf("with a bucket that does not answer: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if err := serve(address); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("with wrong credentials: %v, want PermissionDenied", err)
	}
}
