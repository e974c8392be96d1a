package kubernetes

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Role returns the role that the provider needs in its namespace: exactly what api.go and
// stream.go call. A test compares it with the calls that the conformance suite makes, and runs
// the suite with it.
func Role(name string) *rbacv1.Role {
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			rule("secrets", "create", "delete", "get", "list", "update"),
			rule("persistentvolumeclaims", "create", "delete", "get", "list"),
			rule("pods", "create", "delete", "get", "list", "watch"),
			rule("pods/attach", "create"),
			rule("pods/exec", "create"),
		},
	}
}
