package testmodel

import "encoding/json"

// readGemini reads a request of Gemini's generateContent.
func readGemini(body []byte) (modelRequest, error) {
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
		return modelRequest{}, err
	}
	var a modelRequest
	for _, t := range req.Tools {
		for _, d := range t.Declarations {
			a.tools = append(a.tools, Offer{Name: d.Name})
		}
	}
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if p.Response != nil {
				a.results = append(a.results, responseText(p.Response.Response))
			}
		}
	}
	return a, nil
}

// responseText returns the text of a function's response: its output, or its error.
func responseText(raw json.RawMessage) string {
	var r struct{ Output, Error string }
	if json.Unmarshal(raw, &r) == nil && r.Output+r.Error != "" {
		return r.Output + r.Error
	}
	return string(raw)
}

func writeGemini(a modelAnswer) reply {
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
