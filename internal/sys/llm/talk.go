package llm

import (
	"encoding/json"

	"agentkernel/internal/journal"
	"agentkernel/internal/llm"
	"agentkernel/internal/sys"
)

// talks remembers long conversations of processes as they were sent last: what the next turn begins with is neither looked through nor looked
// up again, message by message, as the memo does it for all that is sent in another way.
type talks struct{ known *journal.Known[conversation] }

// conversation is what was found in the arguments of a call.
type conversation struct {
	list     journal.List
	messages []llm.Message
}

// maxTalks bounds what is remembered, in bytes: some dozen long conversations.
const maxTalks = 32 << 20

func newTalks() talks { return talks{journal.NewKnown[conversation](maxTalks)} }

// talk is a conversation of which the first messages were read before.
type talk struct {
	read []llm.Message // not to be changed
	raw  []json.RawMessage
	of   *journal.Kept[conversation] // nil: it is not remembered
	same int                         // bytes of the arguments
}

// cut takes the messages out of the arguments of a call, which are nearly all of them.
func (k talks) cut(c *sys.Call) (t talk, rest json.RawMessage) {
	if len(c.Args) < journal.LongText {
		messages, rest, ok := journal.Cut(c.Args, "messages")
		if !ok {
			return t, c.Args
		}
		return talk{raw: messages}, rest
	}
	t.of, t.same = k.known.Take(int64(c.PID), c.Args)
	found := &t.of.Found
	kept, rest, ok := found.list.Cut(c.Args, "messages", t.same)
	if !ok {
		return talk{}, c.Args
	}
	t.read = found.messages[:kept]
	for i := kept; i < found.list.Len(); i++ {
		t.raw = append(t.raw, found.list.Item(c.Args, i))
	}
	return t, rest
}

// remember keeps the messages of a talk, which are those of the call: they are not changed any more.
func (k talks) remember(c *sys.Call, t talk, messages []llm.Message) {
	if t.of == nil {
		return
	}
	found := &t.of.Found
	found.messages = append(t.read, messages[len(t.read):]...)
	size := 2 * len(c.Args) // texts, and how they are written in a request
	for i := range found.messages {
		size += aroundMessage + aroundPart*countParts(found.messages[i].Parts)
	}
	k.known.Put(int64(c.PID), t.of, c.Args, t.same, size)
}
