package scripted

import "encoding/json"

// readGemini reads a request of Gemini's generateContent.
func readGemini(body []byte) (asked, error) {
	var req struct {
		Tools []struct {
			Declarations []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		Contents []struct {
			Parts []struct {
				Response *struct {
					Response json.RawMessage `json:"response"`
				} `json:"functionResponse"`
			} `json:"parts"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return asked{}, err
	}
	var a asked
	for _, t := range req.Tools {
		for _, d := range t.Declarations {
			a.offers = append(a.offers, Offer{Name: d.Name})
		}
	}
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if p.Response != nil {
				a.results = append(a.results, outcome(p.Response.Response))
			}
		}
	}
	return a, nil
}

// outcome returns the text of a function's response: its output, or its error.
func outcome(raw json.RawMessage) string {
	var r struct{ Output, Error string }
	if json.Unmarshal(raw, &r) == nil && r.Output+r.Error != "" {
		return r.Output + r.Error
	}
	return string(raw)
}

func writeGemini(a answer) reply {
	part := map[string]any{"text": a.text}
	if a.call.Name != "" {
		part = map[string]any{"functionCall": map[string]any{"id": a.id, "name": a.call.Name, "args": a.args}}
	}
	whole := map[string]any{
		"candidates": []any{map[string]any{"index": 0, "finishReason": "STOP",
			"content": map[string]any{"role": "model", "parts": []any{part}}}},
		"usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
		"modelVersion":  "scripted",
	}
	return reply{whole: whole, events: []frame{{"", whole}}}
}
