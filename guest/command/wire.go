package command

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The frames of the process backend (internal/sandbox/process, "The wire"): length, 4 bytes, little endian; kind, 1
// byte; payload. Of these the command knows JSON objects only.
const (
	wireVersion = 1
	frameHead   = 5
	kindJSON    = '{'
	maxRequest  = 1 << 20 // the kernel takes no longer messages from a command
	maxReply    = 64 << 20
)

// failed is an error as the kernel tells it.
type failed struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// call makes one call and waits for its result.
func call(conn io.ReadWriter, op string, params json.RawMessage) (json.RawMessage, *failed, error) {
	for _, m := range []any{
		struct {
			Type string `json:"type"`
			Wire int    `json:"wire"`
		}{"hello", wireVersion},
		struct {
			Type string          `json:"type"`
			ID   int             `json:"id"`
			Op   string          `json:"op"`
			Args json.RawMessage `json:"args"`
		}{"call", 1, op, params},
	} {
		if err := send(conn, m); err != nil {
			return nil, nil, err
		}
	}
	payload, err := receive(conn)
	if err != nil {
		return nil, nil, err
	}
	var reply struct {
		Type   string          `json:"type"`
		ID     int             `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *failed         `json:"error"`
	}
	if err := json.Unmarshal(payload, &reply); err != nil || reply.Type != "reply" || reply.ID != 1 {
		return nil, nil, errors.Join(err, errors.New("an answer that makes no sense"))
	}
	return reply.Result, reply.Error, nil
}

func send(w io.Writer, m any) error {
	var b bytes.Buffer
	b.Write(make([]byte, frameHead))
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return err
	}
	frame := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	size := len(frame) - frameHead
	if size > maxRequest {
		return fmt.Errorf("the arguments are %d bytes long; the limit is %d", size, maxRequest)
	}
	binary.LittleEndian.PutUint32(frame, uint32(size))
	frame[frameHead-1] = kindJSON
	_, err := w.Write(frame)
	return err
}

func receive(r io.Reader) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it hung up (too many calls at a time, or the message is not understood)")
		}
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxReply || head[frameHead-1] != kindJSON {
		return nil, fmt.Errorf("a frame of %d bytes and kind %q", size, head[frameHead-1])
	}
	payload := make([]byte, size)
	_, err := io.ReadFull(r, payload)
	return payload, err
}
