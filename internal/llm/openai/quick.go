package openai

import (
	"encoding/json"
	"strconv"

	"agentkernel/internal/quickjson"
)

// Of the time that an answer of a few words takes, and of a stream each bit, reading it by reflection is a large part. So what nearly all answers
// consist of is read here, and as soon as there is something else encoding/json reads all of it. Names that nobody asks for are passed over.

// read reads a bit of an answer.
func (c *chunk) read(raw []byte) error {
	if json.Valid(raw) && c.quick(raw) {
		return nil
	}
	*c = chunk{}
	return json.Unmarshal(raw, c)
}

func (c *chunk) quick(raw []byte) bool {
	return quickjson.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "id":
			return quickText(value, &c.ID)
		case "model":
			return quickText(value, &c.Model)
		case "object":
			return quickText(value, &c.Object)
		case "usage":
			c.Usage = value
			return true
		case "choices":
			return c.quickChoices(value)
		case "error":
			return isNull(value)
		}
		return foreign(name)
	})
}

func (c *chunk) quickChoices(raw []byte) bool {
	if c.Choices != nil || raw[0] != '[' {
		return false
	}
	list := quickjson.Cursor{Raw: raw}
	for more := list.Open('[', ']'); more; more = list.Next(']') {
		c.Choices = append(c.Choices, choice{})
		if !c.Choices[len(c.Choices)-1].quick(list.Value()) {
			return false
		}
	}
	return !list.Bad
}

func (c *choice) quick(raw []byte) bool {
	return quickjson.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "index":
			n := int64(c.Index)
			ok := quickInt(value, &n)
			c.Index = int(n)
			return ok
		case "delta":
			return c.Delta.quick(value)
		case "message":
			return c.Message.quick(value)
		case "finish_reason":
			return quickText(value, &c.Finish)
		case "stop_reason":
			return isNull(value)
		}
		return foreign(name)
	})
}

func (m *message) quick(raw []byte) bool {
	return quickjson.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "content":
			return quickText(value, (*string)(&m.Content))
		case "refusal":
			return quickText(value, &m.Refusal)
		case "reasoning_content":
			return quickText(value, &m.ReasoningContent)
		case "reasoning":
			return quickText(value, (*string)(&m.Reasoning))
		case "reasoning_details", "tool_calls":
			return isNull(value)
		}
		return foreign(name)
	})
}

func (u *usage) quick(raw []byte) bool {
	return quickjson.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "prompt_tokens":
			return quickInt(value, &u.Prompt)
		case "completion_tokens":
			return quickInt(value, &u.Completion)
		case "total_tokens":
			return quickInt(value, &u.Total)
		case "prompt_tokens_details":
			return u.PromptDetails.quick(value)
		case "completion_tokens_details":
			return u.ComplDetails.quick(value)
		case "input_tokens", "output_tokens", "prompt_cache_hit_tokens", "input_tokens_details", "output_tokens_details":
			return false
		}
		return foreign(name)
	})
}

func (d *usageDetails) quick(raw []byte) bool {
	return isNull(raw) || quickjson.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "cached_tokens":
			return quickInt(value, &d.Cached)
		case "cache_write_tokens":
			return quickInt(value, &d.CacheWrite)
		case "reasoning_tokens":
			return quickInt(value, &d.Reasoning)
		}
		return foreign(name)
	})
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// foreign says whether a name that was compared with all others is surely none of them: encoding/json takes "ID" for "id".
func foreign(name []byte) bool {
	for _, b := range name {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '_' {
			return false
		}
	}
	return true
}

func quickText(raw []byte, to *string) bool {
	if isNull(raw) {
		return true
	}
	text, _, ok := quickjson.Text(raw)
	if ok {
		*to = text
	}
	return ok
}

func quickInt(raw []byte, to *int64) bool {
	if isNull(raw) {
		return true
	}
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err == nil {
		*to = n
	}
	return err == nil
}
