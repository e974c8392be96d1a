package secret

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// FileValues returns the secrets in a file with credentials or settings of a program: the
// texts in JSON, or the values of lines such as NAME=value, whose name denotes a secret or
// which look random. All have the same name.
func FileValues(name string, data []byte) []Value {
	var texts []string
	add := func(key, text string) {
		text = strings.TrimSpace(text)
		if len(text) >= 8 && isCredentialKey(key) && !isPlaceholder([]byte(text)) || len(text) >= 20 && veryRandom([]byte(text)) {
			texts = append(texts, text)
		}
	}
	var doc any
	if json.Unmarshal(data, &doc) == nil {
		walkStrings("", doc, add)
	} else {
		for line := range bytes.Lines(data) {
			if key, text, ok := strings.Cut(string(line), "="); ok {
				add(strings.TrimSpace(key), strings.Trim(strings.TrimSpace(text), `"'`))
			}
		}
	}
	slices.Sort(texts)
	var values []Value
	for _, text := range slices.Compact(texts) {
		values = append(values, NewValue(name, text))
	}
	return values
}

// isCredentialKey reports whether a key of a file with credentials holds a secret.
func isCredentialKey(key string) bool {
	return IsSecretName(key) || slices.Contains([]string{"key", "access", "refresh", "auth", "password"}, strings.ToLower(key))
}

func walkStrings(key string, v any, visit func(key, text string)) {
	switch v := v.(type) {
	case string:
		visit(key, v)
	case []any:
		for _, x := range v {
			walkStrings(key, x, visit)
		}
	case map[string]any:
		for k, x := range v {
			walkStrings(k, x, visit)
		}
	}
}
