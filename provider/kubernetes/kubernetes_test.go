package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// Variables of the tests. "scripts/cluster run" sets the first; the others are for processes
// that a test starts.
const (
	clusterVar   = "CROFT_TEST_CLUSTER" // path of the kubeconfig of an administrator
	namespaceVar = "CROFT_TEST_NAMESPACE"
	tokenVar     = "CROFT_TEST_TOKEN" // of a service account with Role
	cacheVar     = "CROFT_TEST_CACHE"
)

// Images that scripts/cluster imports.
const (
	testImage  = "croft.test/workspace:1"
	guestImage = "croft.test/guest:1"
)

func TestMain(m *testing.M) {
	if os.Getenv(clusterVar) == "" || os.Getenv(namespaceVar) != "" {
		os.Exit(m.Run())
	}
	os.Exit(withNamespace(m))
}

// withNamespace runs the tests in a namespace of their own, which enforces the restricted Pod
// Security Standard, with a service account that has Role and nothing else.
func withNamespace(m *testing.M) int {
	ctx := context.Background()
	api, err := adminAPI()
	if err != nil {
		panic(err)
	}
	ns, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "croft-test-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	defer func() {
		if err := api.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
			fmt.Fprintln(os.Stderr, "delete the namespace:", err)
		}
	}()
	token, err := makeAccount(ctx, api, ns.Name)
	if err != nil {
		panic(err)
	}
	cache, err := os.MkdirTemp("", "croft-kubernetes-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)
	for name, value := range map[string]string{namespaceVar: ns.Name, tokenVar: token, cacheVar: cache} {
		os.Setenv(name, value)
	}
	return m.Run()
}

// makeAccount creates a service account with Role, and returns a token of it.
func makeAccount(ctx context.Context, api *kubernetes.Clientset, ns string) (string, error) {
	meta := metav1.ObjectMeta{Name: "croft", Namespace: ns}
	_, err := api.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if _, err := api.RbacV1().Roles(ns).Create(ctx, Role("croft"), metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if _, err := api.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "croft"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "croft", Namespace: ns}},
	}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	token, err := api.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "croft", tokenRequest(), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	// Pods need the default service account, which a controller makes.
	for {
		_, err := api.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return token.Status.Token, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func adminConfig() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clusterVar))
	if err == nil {
		cfg.QPS, cfg.Burst = 200, 400
	}
	return cfg, err
}

func adminAPI() (*kubernetes.Clientset, error) {
	cfg, err := adminConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

// admin returns the API of an administrator. It skips the test without a cluster.
func admin(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	needCluster(t)
	api, err := adminAPI()
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func needCluster(t testing.TB) {
	t.Helper()
	if os.Getenv(clusterVar) == "" {
		t.Skip("skipped: there is no cluster of the tests: \"make cluster\" builds and starts one, \"make test-cluster\" runs the tests in it")
	}
}

// config returns the configuration of a provider whose instance is named by dir, with the
// rights of Role.
func config(t testing.TB, dir string) *Config {
	t.Helper()
	needCluster(t)
	cfg, err := adminConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.CertData, cfg.KeyData = nil, nil
	cfg.BearerToken = os.Getenv(tokenVar)
	return &Config{
		REST: cfg, Namespace: os.Getenv(namespaceVar), Instance: instance(dir), Image: testImage, GuestImage: guestImage, PullPolicy: corev1.PullNever,
		Size: "64Mi", Cache: os.Getenv(cacheVar), Lease: 2 * time.Minute, StartTimeout: 2 * time.Minute,
		Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}),
	}
}

func instance(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "t" + hex.EncodeToString(sum[:10])
}

func newProvider(t testing.TB, dir string, mods ...func(*Config)) *Provider {
	t.Helper()
	cfg := config(t, dir)
	for _, mod := range mods {
		mod(cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leftovers lists the objects of the instance of dir.
func leftovers(t testing.TB, dir string) (names []string) {
	t.Helper()
	api, ns := admin(t).CoreV1(), os.Getenv(namespaceVar)
	opts := metav1.ListOptions{LabelSelector: LabelInstance + "=" + instance(dir)}
	secrets, err1 := api.Secrets(ns).List(t.Context(), opts)
	claims, err2 := api.PersistentVolumeClaims(ns).List(t.Context(), opts)
	pods, err3 := api.Pods(ns).List(t.Context(), opts)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, o := range secrets.Items {
		names = append(names, "secret "+o.Name)
	}
	for _, o := range claims.Items {
		names = append(names, "claim "+o.Name)
	}
	for _, o := range pods.Items {
		names = append(names, "pod "+o.Name)
	}
	return names
}

func TestConformance(t *testing.T) {
	needCluster(t)
	workspacetest.Run(t, workspacetest.Harness{
		Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir) },
		Leftovers: leftovers,
		Secrets:   []string{os.Getenv(tokenVar)},
		Parallel:  true,
	})
}

func open(t testing.TB, p *Provider, mods ...func(*driver.Spec)) *driver.Workspace {
	t.Helper()
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
	for _, mod := range mods {
		mod(&spec)
	}
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Life.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

func run(t testing.TB, ws *driver.Workspace, text string) driver.Result {
	t.Helper()
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: text})
	if err != nil {
		t.Fatalf("run %q: %v", text, err)
	}
	return res
}

func write(t testing.TB, ws *driver.Workspace, name, text string) {
	t.Helper()
	if _, err := ws.FS.Write(t.Context(), name, strings.NewReader(text), &driver.WriteOptions{}); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
}

// TestACommandRunsInAPod is the shortest way through.
func TestACommandRunsInAPod(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	if ws.Shell.Dial != nil {
		t.Error("there is Dial, without a network")
	}
	write(t, ws, "from-host", "hello")
	res := run(t, ws, "cat from-host; echo made > from-inside; id -u; pwd; hostname")
	if got, want := string(res.Stdout), "hello65532\n/workspace\ncroft\n"; got != want || res.ExitCode != 0 {
		t.Fatalf("got %q (%+v), want %q", got, res, want)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func tokenRequest() *authenticationv1.TokenRequest {
	hours := int64(24 * 60 * 60)
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}
}
