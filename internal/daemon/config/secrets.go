package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/croft-run/croft/secret"
)

// placeholder, followed by the name of a secret, is the value of a variable in a
// workspace. The egress proxy replaces it by the secret in requests.
const placeholder = "croft-secret:"

// checkTexts refuses strings that look like secrets. Its errors never contain the string.
func (c *Config) checkTexts() error {
	if err := c.walkTexts(reflect.ValueOf(c).Elem(), "", ""); err != nil {
		return err
	}
	return nil
}

// walkTexts checks every string below v. at is the path of v in the file. key is the key
// of v if the user chose it, as in env and options; it is "" for keys of the format.
func (c *Config) walkTexts(v reflect.Value, at, key string) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return c.walkTexts(v.Elem(), at, key)
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			if err := c.walkTexts(v.FieldByIndex(f.index), strings.TrimPrefix(at+"."+f.key, "."), ""); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.walkTexts(v.Index(i), itemPath(at, i), key); err != nil {
				return err
			}
		}
	case reflect.Map:
		userKeys := v.Type().Elem().Kind() != reflect.Struct // not those of policies or providers
		for _, k := range sortedKeys(v) {
			name := ""
			if userKeys {
				name = k.String()
			}
			if err := c.walkTexts(v.MapIndex(k), at+"."+k.String(), name); err != nil {
				return err
			}
		}
	case reflect.String:
		return c.checkSecretText(v.String(), at, key)
	}
	return nil
}

func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

func (c *Config) checkSecretText(text, at, key string) error {
	const advice = "secrets are never in this file; put it where the section secrets says, and write its name here"
	switch {
	case c.origin[at] != "": // from a variable or a flag, which may hold a secret
		return nil
	case at == "store.url", strings.HasPrefix(at, "secrets.hosts."): // checkStore and checkSecretHosts check these
		return nil
	case len(secret.Known().Find([]byte(text))) > 0:
		return c.keyError(at, "this looks like the text of a secret; %s", advice)
	case key == "" || !secret.IsSecretName(key) || text == "":
		return nil
	case strings.HasPrefix(text, placeholder) && validSecret.MatchString(text[len(placeholder):]):
		return nil
	case strings.HasSuffix(strings.ToLower(key), "secret") && validSecret.MatchString(text) && len(text) <= 32:
		return nil // the name of a secret, as in apiSecret: MY_KEY
	}
	return c.keyError(at, "a key of this name would hold a secret; %s, as %s", advice, fmt.Sprintf("%sNAME", placeholder))
}
