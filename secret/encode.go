package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf16"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// encodings returns the texts to search for: the secret, and each common encoding of it.
func encodings(text string) []string {
	all := []string{text}
	all = append(all, base64Forms(text)...)
	all = append(all, hexForms(text)...)
	all = append(all, urlForms(text)...)
	all = append(all, jsonForms(text)...)
	all = append(all, utf16Forms(text)...)
	return append(all, html.EscapeString(text))
}

// utf16Forms returns the text in UTF-16, in both byte orders.
func utf16Forms(text string) []string {
	var little, big []byte
	for _, u := range utf16.Encode([]rune(text)) {
		little = binary.LittleEndian.AppendUint16(little, u)
		big = binary.BigEndian.AppendUint16(big, u)
	}
	return []string{string(little), string(big)}
}

// base64Forms returns the base64 encodings of a text at each of the three alignments. A
// form has only the characters without bits of neighbouring bytes; for a text at the end of
// the encoded data there are two longer ones, with and without padding.
func base64Forms(text string) []string {
	var all []string
	for lead := range 3 {
		data := append(make([]byte, lead), text...)
		first := (lead*8 + 5) / 6 // the first character without bits of what is before
		last := len(data) * 8 / 6 // the first one with bits of what follows
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			padded := enc.EncodeToString(data)
			all = append(all, padded[first:last], strings.TrimRight(padded[first:], "="), padded[first:])
		}
	}
	return all
}

// hexForms returns the text in hexadecimal digits of either case: contiguous, separated by
// bytes, in groups of two, and escaped. Dumps of many lines are found by foldedSearch.
func hexForms(text string) []string {
	plain := hex.EncodeToString([]byte(text))
	apart := make([]string, 0, len(text))
	for i := 0; i < len(plain); i += 2 {
		apart = append(apart, plain[i:i+2])
	}
	var all []string
	for _, f := range []string{plain, strings.Join(apart, " "), strings.Join(apart, ":")} {
		all = append(all, f, strings.ToUpper(f))
	}
	for lead := range 2 {
		var pairs strings.Builder
		for i, b := range apart {
			if i > 0 && i%2 == lead {
				pairs.WriteByte(' ')
			}
			pairs.WriteString(b)
		}
		all = append(all, pairs.String())
	}
	return append(all, `\x`+strings.Join(apart, `\x`))
}

var percentEscape = lazyregexp.New(`%[0-9A-F]{2}`)

// urlForms returns the percent-encoded text: for a query, for a path, and like JavaScript's
// encodeURIComponent, with digits in either case.
func urlForms(text string) []string {
	query := url.QueryEscape(text)
	script := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(query)
	forms := []string{query, strings.ReplaceAll(query, "+", "%20"), script, url.PathEscape(text)}
	for _, f := range forms[:len(forms):len(forms)] {
		forms = append(forms, percentEscape.ReplaceAllStringFunc(f, strings.ToLower))
	}
	return forms
}

// jsonForms returns the text as the inside of a JSON string: plain, HTML-safe, with escaped
// slashes, and in ASCII.
func jsonForms(text string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return nil
	}
	inside := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(plain.String(), "\n"), `"`), `"`)
	safe := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(inside)
	var ascii strings.Builder
	for _, r := range inside {
		switch {
		case r < 0x80:
			ascii.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return []string{inside, safe, strings.ReplaceAll(inside, "/", `\/`), ascii.String(), strings.ReplaceAll(ascii.String(), "/", `\/`)}
}
