// Package check tests the manifests of deploy: what kustomize builds and what Helm renders is
// decoded with Kubernetes' own types, refused for any unknown field, and compared.
package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	namespace  = "croft"
	workspaces = "croft-workspaces"
)

// objects are decoded objects, by "Kind namespace/name".
type objects map[string]metav1.Object

var variants = []struct{ name, kustomize, values string }{
	{"base", "../replicas/base", ""},
	{"production", "../replicas/production", "../helm/croft/production.yaml"},
}

func TestKustomizeAndHelmAgree(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			fromKustomize, fromHelm := decode(t, kustomize(t, v.kustomize)), decode(t, helm(t, withNamespace(readValues(t, v.values))))
			kept := get[*corev1.Namespace](t, fromHelm, "Namespace", "", workspaces)
			if diff := cmp.Diff(map[string]string{"helm.sh/resource-policy": "keep"}, kept.Annotations); diff != "" {
				t.Errorf("helm uninstall would remove the workspaces:\n%s", diff)
			}
			kept.Annotations = nil
			sortSettings(t, fromKustomize)
			sortSettings(t, fromHelm)
			if diff := cmp.Diff(fromKustomize, fromHelm); diff != "" {
				t.Errorf("kustomize (-) and Helm (+) differ:\n%s", diff)
			}
		})
	}
}

// withNamespace adds the namespace of the release, which the chart leaves out by default: Helm
// needs it before it installs, and refuses one that exists.
func withNamespace(values map[string]any) map[string]any {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]any{}
	}
	out["namespace"] = map[string]any{"create": true}
	return out
}

// sortSettings makes what has no order comparable: the YAML text of croft.yaml, and the
// variables after the node's name, which another one uses.
func sortSettings(t *testing.T, all objects) {
	t.Helper()
	config := get[*corev1.ConfigMap](t, all, "ConfigMap", namespace, "croft")
	var parsed any
	if err := yaml.UnmarshalStrict([]byte(config.Data["croft.yaml"]), &parsed); err != nil {
		t.Fatalf("croft.yaml: %v", err)
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	config.Data["croft.yaml"] = string(text)
	env := server(t, all).Spec.Template.Spec.Containers[0].Env
	names := func(e corev1.EnvVar) string { return e.Name }
	if slices.IndexFunc(env, func(e corev1.EnvVar) bool { return names(e) == "CROFT_NODE" }) > slices.IndexFunc(env, func(e corev1.EnvVar) bool { return names(e) == "CROFT_ADVERTISE" }) {
		t.Error("CROFT_ADVERTISE uses CROFT_NODE, which must come before it")
	}
	slices.SortFunc(env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
}

func TestManifests(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			all := decode(t, kustomize(t, v.kustomize))
			set := server(t, all)
			pod := set.Spec.Template
			if *set.Spec.Replicas < 2 {
				t.Errorf("there are %d replicas, want several", *set.Spec.Replicas)
			}
			selects(t, "StatefulSet", set.Spec.Selector, pod.Labels)
			for _, name := range []string{"croft", "croft-nodes"} {
				s := get[*corev1.Service](t, all, "Service", namespace, name)
				selects(t, "Service "+name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pod.Labels)
				for _, port := range s.Spec.Ports {
					if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.String() }) {
						t.Errorf("Service %s: the container has no port %s", name, port.TargetPort.String())
					}
				}
			}
			if s := get[*corev1.Service](t, all, "Service", namespace, set.Spec.ServiceName); s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses {
				t.Errorf("the Service of the replicas' names has a cluster IP, or only ready addresses: %+v", s.Spec)
			}
			selects(t, "PodDisruptionBudget", get[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget", namespace, "croft").Spec.Selector, pod.Labels)
			checkServerPolicy(t, get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy", namespace, "croft"), pod.Labels)
			checkDenyAll(t, get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy", workspaces, "croft-deny-all"))
			checkRights(t, all, pod.Spec.ServiceAccountName)
			checkProbes(t, pod.Spec.Containers[0])
			checkReferences(t, all, pod.Spec)
			for _, ns := range []string{namespace, workspaces} {
				if level := get[*corev1.Namespace](t, all, "Namespace", "", ns).Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
					t.Errorf("namespace %s has the Pod Security Standard %q, want restricted", ns, level)
				}
			}
			if m, ok := all["ServiceMonitor croft/croft"].(*monitoringv1.ServiceMonitor); ok {
				s := get[*corev1.Service](t, all, "Service", namespace, "croft")
				selects(t, "ServiceMonitor", &m.Spec.Selector, s.Labels)
				if name := m.Spec.Endpoints[0].TLSConfig.ServerName; name == nil || *name != "croft."+namespace+".svc" {
					t.Errorf("the ServiceMonitor checks the certificate for %v, which it does not name", name)
				}
				if m.Spec.Endpoints[0].Port != s.Spec.Ports[0].Name {
					t.Errorf("the ServiceMonitor scrapes port %q, the Service has %q", m.Spec.Endpoints[0].Port, s.Spec.Ports[0].Name)
				}
			} else if v.name == "production" {
				t.Error("there is no ServiceMonitor")
			}
		})
	}
}

// checkServerPolicy checks what replicas may reach.
func checkServerPolicy(t *testing.T, p *networkingv1.NetworkPolicy, pod map[string]string) {
	t.Helper()
	selects(t, "NetworkPolicy of the replicas", &p.Spec.PodSelector, pod)
	if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Egress) == 0 {
		t.Errorf("the policy of the replicas does not limit both directions: %+v", p.Spec)
	}
	for _, rule := range p.Spec.Egress {
		if len(rule.Ports) == 0 {
			t.Errorf("a rule of egress allows all ports: %+v", rule)
		}
	}
}

// checkDenyAll checks that workspaces reach nothing and are not reached. The labels are those
// of provider/kubernetes.
func checkDenyAll(t *testing.T, p *networkingv1.NetworkPolicy) {
	t.Helper()
	selects(t, "NetworkPolicy of workspaces", &p.Spec.PodSelector, map[string]string{
		"app.kubernetes.io/managed-by": "croft", "run.croft/instance": "croft", "run.croft/workspace": "abc",
	})
	if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) > 0 || len(p.Spec.Egress) > 0 {
		t.Errorf("the policy of workspaces allows something: %+v", p.Spec)
	}
}

// checkRights checks that the replicas have the one Role, in the workspaces' namespace, and
// that it is that of provider/kubernetes.
func checkRights(t *testing.T, all objects, account string) {
	t.Helper()
	get[*corev1.ServiceAccount](t, all, "ServiceAccount", namespace, account)
	bound := 0
	for name, o := range all {
		if strings.HasPrefix(name, "ClusterRole") {
			t.Errorf("%s gives rights in the whole cluster", name)
		}
		b, ok := o.(*rbacv1.RoleBinding)
		if !ok {
			continue
		}
		get[*rbacv1.Role](t, all, b.RoleRef.Kind, b.Namespace, b.RoleRef.Name)
		if b.Namespace != workspaces {
			t.Errorf("%s gives rights outside of the workspaces' namespace", name)
		}
		for _, s := range b.Subjects {
			if s.Kind == "ServiceAccount" && s.Name == account && s.Namespace == namespace {
				bound++
			}
		}
	}
	if bound != 1 {
		t.Errorf("the service account of the replicas is bound %d times, want once", bound)
	}
	for _, rule := range get[*rbacv1.Role](t, all, "Role", workspaces, "croft").Rules {
		if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
			t.Errorf("a rule has a wildcard: %+v", rule)
		}
	}
}

func checkProbes(t *testing.T, c corev1.Container) {
	t.Helper()
	for name, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != name || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("there is no probe of %s by HTTPS: %+v", name, probe)
		}
	}
	if c.StartupProbe == nil {
		t.Error("there is no startup probe")
	}
}

// checkReferences checks the restricted Pod Security Standard, that every mount has a volume,
// and that passwords and keys come from Secrets that are not in the manifests.
func checkReferences(t *testing.T, all objects, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("the pod is not restricted: %+v %+v", pod.SecurityContext, s)
	}
	volumes := map[string]bool{"data": true} // of the claim template
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil {
			get[*corev1.ConfigMap](t, all, "ConfigMap", namespace, v.ConfigMap.Name)
		}
		if v.HostPath != nil {
			t.Errorf("volume %s is of the host", v.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("the mount %s has no volume", m.Name)
		}
	}
	for _, e := range c.Env {
		if secret := e.Name == "CROFT_TOKEN" || e.Name == "CROFT_STORE"; secret != (e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil) {
			t.Errorf("variable %s: it comes from a Secret, or should: %+v", e.Name, e)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "Secret ") {
			t.Errorf("%s is in the manifests", name)
		}
	}
}

// TestChartRefusesValues checks that the schema is applied.
func TestChartRefusesValues(t *testing.T) {
	for _, bad := range []string{
		"replica: 3", "replicas: 0", "replicas: many", "image: {repository: croft-k8s, tag: ''}", "workspaces: {instance: 'a b'}", "data: {size: big}",
		"service: {type: ExternalName}", "secrets: {token: ''}", "serviceMonitor: {enabled: 'yes'}", "resources: {limits: {memory: lots}}",
		"workspaces: {volume: hostPath}", "workspaces: {nodeSelector: {pool: 1}}", "workspaces: {tolerations: all}", "workspaces: {requests: {cpu: some}}", "workspaces: {pullSecrets: registry}",
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(bad), &values); err != nil {
			t.Fatal(err)
		}
		key, _, _ := strings.Cut(bad, ":")
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v, want an error that names the value", bad, err)
		}
	}
}

// TestChartValues checks that values reach the objects.
func TestChartValues(t *testing.T) {
	var values map[string]any
	text := `
hosts: [agents.example]
config: {caps: {maxOpen: 100}, server: {log: {level: debug}}}
pullSecrets: [registry]
namespace: {create: false}
workspaces:
  {createNamespace: false, namespace: boxes, instance: "123", image: "debian:stable", size: 5Gi, storageClass: fast, pullPolicy: Always, volume: emptyDir,
  nodeSelector: {pool: boxes}, tolerations: [{key: boxes, operator: Exists}], requests: {cpu: 100m}, pullSecrets: [of-boxes]}
networkPolicy: {enabled: false}
service: {type: LoadBalancer, port: 8443}
nodeSelector: {pool: servers}
tolerations: [{key: servers, operator: Exists}]
data: {storageClass: fast, size: 1Gi}
`
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	all := decode(t, helm(t, values))
	names := slices.Sorted(maps.Keys(all))
	want := []string{
		"ConfigMap croft/croft", "PodDisruptionBudget croft/croft", "Role boxes/croft", "RoleBinding boxes/croft", "RoleBinding boxes/croft-replicas",
		"Service croft/croft", "Service croft/croft-nodes", "ServiceAccount boxes/croft", "ServiceAccount croft/croft", "StatefulSet croft/croft",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the objects are not as wanted:\n%s", diff)
	}
	pod, env := server(t, all).Spec.Template.Spec, map[string]string{}
	for _, e := range pod.Containers[0].Env {
		env[e.Name] = e.Value
	}
	for name, want := range map[string]string{
		"CROFT_K8S_NAMESPACE": "boxes", "CROFT_K8S_INSTANCE": "123", "CROFT_K8S_IMAGE": "debian:stable", "CROFT_K8S_SIZE": "5Gi", "CROFT_K8S_STORAGE_CLASS": "fast", "CROFT_K8S_PULL_POLICY": "Always",
		"CROFT_K8S_VOLUME": "emptyDir", "CROFT_K8S_NODE_SELECTOR": `{"pool":"boxes"}`, "CROFT_K8S_TOLERATIONS": `[{"key":"boxes","operator":"Exists"}]`,
		"CROFT_K8S_REQUESTS": `{"cpu":"100m"}`, "CROFT_K8S_PULL_SECRETS": `["of-boxes"]`,
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if _, there := env["CROFT_K8S_RUNTIME_CLASS"]; there || pod.NodeSelector["pool"] != "servers" || len(pod.Tolerations) != 1 || len(pod.ImagePullSecrets) != 1 {
		t.Errorf("the pod is not as wanted: %+v", pod)
	}
	config := get[*corev1.ConfigMap](t, all, "ConfigMap", namespace, "croft").Data["croft.yaml"]
	for _, part := range []string{"agents.example", "maxOpen: 100", "level: debug", "format: json"} {
		if !strings.Contains(config, part) {
			t.Errorf("croft.yaml lacks %q:\n%s", part, config)
		}
	}
}

func kustomize(t *testing.T, dir string) []byte {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("kustomize: %v", err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if file == "" {
		return values
	}
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return values
}

func helm(t *testing.T, values map[string]any) []byte {
	t.Helper()
	text, err := render(t, values)
	if err != nil {
		t.Fatalf("helm: %v", err)
	}
	return text
}

// render is "helm template": it checks the values, and renders the chart.
func render(t *testing.T, values map[string]any) ([]byte, error) {
	t.Helper()
	chart, err := loader.Load("../helm/croft")
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "croft", Namespace: namespace, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "---\n%s\n", files[name])
	}
	return b.Bytes(), nil
}

// decode decodes documents of YAML. An unknown kind or field, and a second object of a name,
// are errors.
func decode(t *testing.T, text []byte) objects {
	t.Helper()
	all := objects{}
	for docs := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		buf := make([]byte, 1<<20)
		n, err := docs.Read(buf)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		doc := buf[:n]
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &meta); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		if meta.Kind == "" {
			continue // comments alone
		}
		o := newObject(meta)
		if o == nil {
			t.Errorf("%s %s is not a known kind", meta.APIVersion, meta.Kind)
			continue
		}
		if err := yaml.UnmarshalStrict(doc, o); err != nil {
			t.Errorf("%s: %v:\n%s", meta.Kind, err, doc)
		}
		name := meta.Kind + " " + o.GetNamespace() + "/" + o.GetName()
		if all[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		if o.GetName() == "" || (o.GetNamespace() == "") != (meta.Kind == "Namespace") {
			t.Errorf("%s has no name, or a namespace too many or too few", name)
		}
		all[name] = o
	}
}

func newObject(m metav1.TypeMeta) metav1.Object {
	switch m.APIVersion + " " + m.Kind {
	case "v1 Namespace":
		return new(corev1.Namespace)
	case "v1 ServiceAccount":
		return new(corev1.ServiceAccount)
	case "v1 ConfigMap":
		return new(corev1.ConfigMap)
	case "v1 Secret":
		return new(corev1.Secret)
	case "v1 Service":
		return new(corev1.Service)
	case "apps/v1 StatefulSet":
		return new(appsv1.StatefulSet)
	case "rbac.authorization.k8s.io/v1 Role":
		return new(rbacv1.Role)
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return new(rbacv1.RoleBinding)
	case "networking.k8s.io/v1 NetworkPolicy":
		return new(networkingv1.NetworkPolicy)
	case "policy/v1 PodDisruptionBudget":
		return new(policyv1.PodDisruptionBudget)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return new(monitoringv1.ServiceMonitor)
	}
	return nil
}

func get[T metav1.Object](t *testing.T, all objects, kind, ns, name string) T {
	t.Helper()
	o, ok := all[kind+" "+ns+"/"+name].(T)
	if !ok {
		t.Fatalf("there is no %s %s/%s; there are %v", kind, ns, name, slices.Sorted(maps.Keys(all)))
	}
	return o
}

func server(t *testing.T, all objects) *appsv1.StatefulSet {
	t.Helper()
	return get[*appsv1.StatefulSet](t, all, "StatefulSet", namespace, "croft")
}

func selects(t *testing.T, what string, selector *metav1.LabelSelector, of map[string]string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() || !s.Matches(labels.Set(of)) {
		t.Errorf("the selector of %s, %v, does not match %v (%v)", what, s, of, err)
	}
}
