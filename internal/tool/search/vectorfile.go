package search

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// The file of vectors: a line of JSON that says whose they are, then for each text its digest and its vector, as
// little-endian 32-bit floats. It is a cache: one that cannot be read is made anew.

// Bounds of the file.
const (
	maxVectorFile = 256 << 20
	maxDimensions = 16 << 10
)

// vectorHead is the file's first line.
type vectorHead struct {
	Form       int    `json:"form"`
	Model      string `json:"model"`
	Dimensions int    `json:"dimensions"`
}

const vectorForm = 1

// load reads the file once; v.mu is held.
func (v *Vectors) load() {
	if v.byText != nil {
		return
	}
	v.byText = map[digest][]float32{}
	if v.cfg.Path == "" {
		return
	}
	st, err := os.Stat(v.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && st.Size() > maxVectorFile {
		err = fmt.Errorf("it has %d bytes, more than %d", st.Size(), maxVectorFile)
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(v.cfg.Path)
	}
	if err == nil {
		err = v.parse(raw)
	}
	if err != nil {
		v.byText = map[digest][]float32{}
		v.cfg.Problem(v.cfg.Path, err)
	}
}

func (v *Vectors) parse(raw []byte) error {
	line, rest, found := bytes.Cut(raw, []byte("\n"))
	var head vectorHead
	if err := json.Unmarshal(line, &head); err != nil || !found || head.Dimensions <= 0 || head.Dimensions > maxDimensions {
		return errors.New("it is no file of vectors")
	}
	if head.Form != vectorForm || head.Model != v.cfg.Model {
		return nil // of another model
	}
	size := len(digest{}) + 4*head.Dimensions
	if len(rest)%size != 0 {
		return errors.New("it is cut off")
	}
	for ; len(rest) > 0; rest = rest[size:] {
		vector := make([]float32, head.Dimensions)
		for i := range vector {
			vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(rest[len(digest{})+4*i:]))
		}
		v.byText[digest(rest[:len(digest{})])] = vector
	}
	return nil
}

// save writes the file, without the texts that nobody asked for while it grew too large; v.mu is held.
func (v *Vectors) save() {
	if v.cfg.Path == "" {
		return
	}
	dimensions := 0
	for key := range v.used {
		if dimensions = len(v.byText[key]); dimensions > 0 {
			break
		}
	}
	size := len(digest{}) + 4*dimensions
	all := len(v.byText)*size < maxVectorFile/2
	line, err := json.Marshal(vectorHead{vectorForm, v.cfg.Model, dimensions})
	if err == nil && (dimensions == 0 || dimensions > maxDimensions) {
		err = fmt.Errorf("vectors of %d numbers", dimensions)
	}
	if err == nil {
		raw := append(line, '\n')
		for key, vector := range v.byText {
			if len(vector) != dimensions || !all && !v.used[key] || len(raw) > maxVectorFile-size {
				continue
			}
			raw = append(raw, key[:]...)
			for _, x := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
		}
		err = replace(v.cfg.Path, raw)
	}
	if err != nil {
		v.cfg.Problem(v.cfg.Path, err)
	}
}

// replace writes a file in one step.
func replace(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
