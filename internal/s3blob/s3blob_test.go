package s3blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
)

func open(t *testing.T, address string) *blob.Bucket {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestObjects(t *testing.T) {
	address := testenv.NeedsS3(t)
	b := open(t, address)
	ctx := t.Context()
	random := rand.NewChaCha8([32]byte{})
	for _, size := range []int{0, 1, partSize, partSize + 1, 3*partSize + 5} {
		data := make([]byte, size)
		random.Read(data)
		key := fmt.Sprintf("sizes/%d", size)
		if err := b.WriteAll(ctx, key, data, nil); err != nil {
			t.Fatal(err)
		}
		got, err := b.ReadAll(ctx, key)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("an object of %d bytes is read as %d bytes, %v", size, len(got), err)
		}
		info, err := b.Attributes(ctx, key)
		if err != nil || info.Size != int64(size) || info.ModTime.IsZero() {
			t.Errorf("an object of %d bytes has %+v, %v", size, info, err)
		}
	}
	if err := b.WriteAll(ctx, "part", []byte("0123456789"), &blob.WriterOptions{ContentType: "text/x-test", IfNotExist: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {4, -1, "456789"}, {4, 3, "456"}, {4, 0, ""}, {8, 100, "89"}} {
		r, err := b.NewRangeReader(ctx, "part", c.offset, c.length, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if string(got) != c.want || err != nil || r.Size() != 10 || r.ContentType() != "text/x-test" {
			t.Errorf("%d bytes from %d are %q, %v, of %d bytes of %s", c.length, c.offset, got, err, r.Size(), r.ContentType())
		}
		r.Close()
	}
	if err := b.WriteAll(ctx, "part", []byte("again"), &blob.WriterOptions{IfNotExist: true}); gcerrors.Code(err) != gcerrors.FailedPrecondition {
		t.Errorf("an object that is there is made again: %v", err)
	}
	if err := b.Copy(ctx, "copy", "part", nil); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"part", "copy"} {
		if err := b.Delete(ctx, key); err != nil {
			t.Error(err)
		}
		if err := b.Delete(ctx, key); gcerrors.Code(err) != gcerrors.NotFound {
			t.Errorf("an object that is gone is deleted: %v", err)
		}
	}
	if _, err := b.ReadAll(ctx, "part"); gcerrors.Code(err) != gcerrors.NotFound {
		t.Errorf("an object that is gone is read: %v", err)
	}
	nowhere := open(t, strings.Replace(address, "snapshots", "nowhere", 1))
	if _, _, err := nowhere.ListPage(ctx, blob.FirstPageToken, 1, nil); gcerrors.Code(err) != gcerrors.NotFound {
		t.Errorf("a bucket that is missing gives %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if _, err := open(t, address).ReadAll(ctx, "sizes/1"); gcerrors.Code(err) != gcerrors.PermissionDenied {
		t.Errorf("wrong credentials give %v", err)
	}
}

func TestList(t *testing.T) {
	b := open(t, testenv.NeedsS3(t))
	ctx := t.Context()
	want := []string{"a/1", "a/2", "a/\x01", "a/../b", "a/ü #?%+", "a/__0x", "a/b/c"}
	for _, key := range append([]string{"b"}, want...) {
		if err := b.WriteAll(ctx, key, []byte(key), nil); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
	}
	var got []string
	for token := blob.FirstPageToken; token != nil; {
		page, next, err := b.ListPage(ctx, token, 2, &blob.ListOptions{Prefix: "a/"})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			data, err := b.ReadAll(ctx, o.Key)
			if err != nil || string(data) != o.Key || o.Size != int64(len(o.Key)) {
				t.Errorf("%q has %q (%d bytes), %v", o.Key, data, o.Size, err)
			}
			got = append(got, o.Key)
		}
		token = next
	}
	if len(got) != len(want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if err := b.WriteAll(ctx, "a/1", nil, &blob.WriterOptions{Metadata: map[string]string{"x": "y"}}); gcerrors.Code(err) != gcerrors.Unimplemented {
		t.Errorf("metadata are dropped: %v", err)
	}
}

// TestCanceled: an object whose context ends before Close is not there, whatever its size.
func TestCanceled(t *testing.T) {
	b := open(t, testenv.NeedsS3(t))
	for _, size := range []int{1, 2 * partSize} {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := b.NewWriter(ctx, "cut", &blob.WriterOptions{ContentType: "x/y"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := w.Close(); err == nil {
			t.Errorf("a canceled object of %d bytes is complete", size)
		}
		if there, err := b.Exists(t.Context(), "cut"); there || err != nil {
			t.Errorf("a canceled object of %d bytes is there: %v, %v", size, there, err)
		}
	}
}

// TestSentAgain: a server that is busy, or whose answer is lost, gets each part once more.
func TestSentAgain(t *testing.T) {
	u, err := url.Parse(testenv.NeedsS3(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	target, err := url.Parse(q.Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host // the host is signed
	}}
	var writes atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && writes.Add(1)%2 == 1 {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	q.Set("endpoint", proxy.URL)
	u.RawQuery = q.Encode()
	b := open(t, u.String())
	for _, size := range []int{3, partSize + 1} {
		data := bytes.Repeat([]byte("x"), size)
		if err := b.WriteAll(t.Context(), "again", data, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := b.ReadAll(t.Context(), "again"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes are read as %d, %v", size, len(got), err)
		}
	}
}

func TestURLs(t *testing.T) {
	for query, want := range map[string]string{
		"region=x&endpoint=http://127.0.0.1:1": "", "endpoint=minio.example:9000": "", "profile=p": "",
		"kind=x": "parameter", "disable_https=maybe": "invalid syntax", "endpoint=http://a/b": "endpoint", "endpoint=://": "endpoint",
	} {
		_, err := Open(&url.URL{Scheme: Scheme, Host: "b", RawQuery: query})
		if want == "" && err != nil || want != "" && (fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s gives %v", query, err)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, key := range []string{"a/../b", "\x00\x1f", "__0x1__", "__0x", "ü", "../../x"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		escaped := escapeKey(key)
		if strings.ContainsAny(escaped, "\x00\n\r\t") || strings.Contains(escaped, "../") {
			t.Errorf("%q is escaped as %q", key, escaped)
		}
		if again := unescapeKey(escaped); again != strings.ToValidUTF8(key, "\ufffd") && !strings.Contains(key, "__0x") && strings.ToValidUTF8(key, "") == key {
			t.Errorf("%q is %q after it was escaped", key, again)
		}
	})
}
