package agent_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/devllm"
	"agentkernel/userland/agent"
)

// picture is a PNG of one colour.
func picture(t *testing.T, of color.Color) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 2, 2))
	for i := range 4 {
		img.Set(i%2, i/2, of)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func named(images ...[]byte) (all []agent.Picture) {
	for i, data := range images {
		all = append(all, agent.Picture{Name: fmt.Sprintf("%d.png", i+1), Data: data})
	}
	return all
}

// The user's pictures are in the first message, and those that programs make in the message behind the call of look_at. The provider counts
// how many a conversation has.
func TestPictures(t *testing.T) {
	red, blue := picture(t, color.RGBA{R: 255, A: 255}), picture(t, color.RGBA{B: 255, A: 255})
	makes := fmt.Sprintf("import base64\\nred = base64.b64decode('%s')\\n{'before': 1, 'charts': [red, (red,)], 'raw': b'no picture'}", base64.StdEncoding.EncodeToString(red))
	for name, c := range map[string]struct {
		script string
		images [][]byte
		stdout string
		says   []string
		asked  int
	}{
		"of the user": {
			images: [][]byte{red, blue},
			script: `
  - when: {user: what is this, turn: 1, images: 2}
    answer: {calls: [{name: finish, arguments: {result: red and blue}}]}`,
			stdout: "red and blue\n", asked: 1,
		},
		"none": {
			script: `
  - when: {user: what is this, turn: 1, images: 0}
    answer: {calls: [{name: finish, arguments: {result: nothing}}]}`,
			stdout: "nothing\n", asked: 1,
		},
		"of a program": {
			images: [][]byte{blue},
			script: `
  - when: {turn: 1, tools: [look_at], images: 1}
    answer: {calls: [{name: run_python, arguments: {code: "` + makes + `"}}]}
  - when: {turn: 2, images: 1, tool_result: '/\{"before": 1, "charts": \["\[picture 1: PNG, \d+ bytes\]", \["\[picture 1: PNG, \d+ bytes\]"\]\], "raw": "b.no picture.*"\}/'}
    answer: {calls: [{name: look_at, arguments: {picture: "1"}}, {name: look_at, arguments: {picture: "2"}}, {name: look_at, arguments: {picture: /etc/passwd}}, {name: look_at, arguments: {}}]}
  - when: {turn: 3, images: 2, user: "picture 1:", tool_result: '/the next message shows it(.|\n)*no picture number 2: there were 1(.|\n)*passwd is not shown: programs of this task have no files(.|\n)*takes the argument/'}
    answer: {calls: [{name: finish, arguments: {result: it is red}}]}`,
			stdout: "it is red\n", asked: 3, says: []string{"looks at picture 1, "},
		},
		"a model without eyes": {
			script: `
  - when: {images: 1}
    answer: {error: {status: 400, message: gpt-dev does not support image input}}
  - when: {turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "` + makes + `"}}]}
  - when: {turn: 2}
    answer: {calls: [{name: look_at, arguments: {picture: 1}}]}
  - when: {turn: 3, user: '/This picture cannot be shown to you: .*does not support image input.*Compute/', images: 0, tools: [run_python]}
    answer: {calls: [{name: finish, arguments: {result: I compute it.}}]}`,
			stdout: "I compute it.\n", asked: 4, says: []string{"the model cannot look at it"},
		},
		"a model without eyes that is given a picture": {
			images: [][]byte{red},
			script: `
  - when: {images: 1}
    answer: {error: {status: 400, message: gpt-dev does not support image input}}`,
			asked: 2, says: []string{"the task is not done: the model cannot be asked: ", "does not support image input"},
		},
		"text alone": {
			script: `
  - when: {tools: [run_python]}
    answer: {error: {status: 400, message: gpt-dev does not support tools}}
  - when: {turn: 1, system: You cannot look at pictures then}
    answer: {text: "` + "```" + `python\n` + makes + "\\n```" + `"}
  - when: {turn: 2, user: "[picture 1: PNG", images: 0}
    answer: {text: "FINAL: seen by nobody"}`,
			stdout: "seen by nobody\n", asked: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "rules:"+c.script+"\ndefault: {error: {status: 400, message: this was not to be shown}}")
			_, stdout, stderr := r.do(agent.Task{Text: "what is this", Images: named(c.images...)}, nil)
			if stdout != c.stdout {
				t.Errorf("it printed %q, want %q\n%s", stdout, c.stdout, stderr)
			}
			for _, text := range c.says {
				if !strings.Contains(stderr, text) {
					t.Errorf("it does not say %q:\n%s", text, stderr)
				}
			}
			if n := len(r.model.Log(devllm.Filter{})); n != c.asked {
				t.Errorf("the model was asked %d times, want %d\n%s", n, c.asked, stderr)
			}
		})
	}
}

// As many bytes as there may be reach the provider, and one more does not.
func TestLargePictures(t *testing.T) {
	large := func(n int) []byte {
		return append(picture(t, color.Black), make([]byte, n-len(picture(t, color.Black)))...)
	}
	for _, images := range [][][]byte{{large(agent.MaxImage + 1)}, {large(3_500_000), large(3_500_000), large(3_000_001)}, {[]byte("GIF86a is none")}} {
		if _, err := agent.Program(agent.Task{Text: "x", Images: named(images...)}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%d pictures: %v", len(images), err)
		}
	}
	r := newRig(t, "rules: [{when: {images: 3}, answer: {calls: [{name: finish, arguments: {result: large}}]}}]")
	p, stdout, stderr := r.do(agent.Task{Text: "look", Images: named(large(agent.MaxImage), large(agent.MaxImage), large(2_500_000))}, func(s *agentkernel.Spec) {
		s.Limits.Time = agentkernel.Duration(5 * time.Minute) // to hand over so much takes a slow machine long
	})
	if stdout != "large\n" {
		t.Errorf("%q, %v\n%s", stdout, p.Error, stderr)
	}
}
