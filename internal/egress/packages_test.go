package egress

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// pack returns a registry's archive: a zip, or a compressed tar.
func pack(t *testing.T, zipped bool, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	if zipped {
		zw := zip.NewWriter(&out)
		for name, text := range files {
			f, err := zw.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(f, text)
		}
		if err := zw.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	gz := gzip.NewWriter(&out)
	tw := tar.NewWriter(gz)
	for name, text := range files {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(tw, text)
	}
	_, _ = tw.Close(), gz.Close()
	return out.Bytes()
}

// serve answers with fixed contents, only to those who have the credential.
func serveFiles(files map[string][]byte) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, ok := files[r.URL.Path]
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			rw.WriteHeader(http.StatusUnauthorized)
		case !ok:
			rw.WriteHeader(http.StatusNotFound)
		default:
			_, _ = rw.Write(body)
		}
	}
}

func TestGo(t *testing.T) {
	w := newWorld(t, credentialed("mod.test"), nil)
	mod := "module example.test/m\n"
	w.host("mod.test", addrA, serveFiles(map[string][]byte{
		"/example.test/m/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0"}`),
		"/example.test/m/@v/v1.0.0.mod":  []byte(mod),
		"/example.test/m/@v/v1.0.0.zip": pack(t, true, map[string]string{
			"example.test/m@v1.0.0/go.mod": mod, "example.test/m@v1.0.0/m.go": "package m\n"}),
	}))
	out, err := w.tool("env", "GOPROXY=https://mod.test", "GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOTOOLCHAIN=local", "go", "mod", "download", "-json", "example.test/m@v1.0.0")
	if err != nil || !strings.Contains(out, `"GoMod"`) {
		t.Errorf("%s %v", out, err)
	}
}

func TestPip(t *testing.T) {
	w := newWorld(t, credentialed("pypi.test"), nil)
	w.host("pypi.test", addrA, serveFiles(map[string][]byte{
		"/simple/m/": []byte(`<!DOCTYPE html><html><body><a href="/f/m-1.0-py3-none-any.whl">m-1.0-py3-none-any.whl</a></body></html>`),
		"/f/m-1.0-py3-none-any.whl": pack(t, true, map[string]string{"m.py": "x = 1\n",
			"m-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: m\nVersion: 1.0\n", "m-1.0.dist-info/RECORD": "",
			"m-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}),
	}))
	out, err := w.tool("pip", "--disable-pip-version-check", "--isolated", "download", "--no-cache-dir", "--no-deps", "--index-url", "https://pypi.test/simple/", "m")
	if err != nil {
		t.Errorf("%s %v", out, err)
	}
}

func TestNpm(t *testing.T) {
	w := newWorld(t, credentialed("npm.test"), nil)
	tgz := pack(t, false, map[string]string{"package/package.json": `{"name":"m","version":"1.0.0"}`})
	sum := sha512.Sum512(tgz)
	w.host("npm.test", addrA, serveFiles(map[string][]byte{
		"/m": fmt.Appendf(nil, `{"name":"m","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"m","version":"1.0.0","dist":{"tarball":"https://npm.test/m.tgz","integrity":"sha512-%s"}}}}`,
			base64.StdEncoding.EncodeToString(sum[:])),
		"/m.tgz": tgz,
	}))
	out, err := w.tool("npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--registry=https://npm.test/", "m")
	if err != nil || !strings.Contains(out, "added 1 package") {
		t.Errorf("%s %v", out, err)
	}
}
