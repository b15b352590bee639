package intrinsic

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/json"
	"hash"
	"strings"
)

// hasher gives the constructor for a name of hashlib, nil if there is none.
func hasher(name string) func() hash.Hash {
	switch strings.ToLower(name) {
	case "md5":
		return md5.New
	case "sha1":
		return sha1.New
	case "sha224":
		return sha256.New224
	case "sha256":
		return sha256.New
	case "sha384":
		return sha512.New384
	case "sha512":
		return sha512.New
	case "sha3_256":
		return func() hash.Hash { return sha3.New256() }
	case "sha3_512":
		return func() hash.Hash { return sha3.New512() }
	}
	return nil
}

func (a arguments) hasher(i int) (func() hash.Hash, error) {
	name, err := a.text(i)
	if err != nil {
		return nil, err
	}
	h := hasher(name)
	if h == nil {
		return nil, valueError("unsupported hash type %s", name)
	}
	return h, nil
}

// digest(name, data) -> bytes.
func digest(a arguments) (json.RawMessage, error) {
	newHash, err := a.hasher(0)
	if err != nil {
		return nil, err
	}
	data, err := a.bytes(1)
	if err != nil {
		return nil, err
	}
	h := newHash()
	h.Write(data)
	return bytesResult(h.Sum(nil)), nil
}

// hmacDigest(name, key, message) -> bytes.
func hmacDigest(a arguments) (json.RawMessage, error) {
	newHash, err := a.hasher(0)
	if err != nil {
		return nil, err
	}
	key, err := a.bytes(1)
	if err != nil {
		return nil, err
	}
	message, err := a.bytes(2)
	if err != nil {
		return nil, err
	}
	h := hmac.New(newHash, key)
	h.Write(message)
	return bytesResult(h.Sum(nil)), nil
}

// maxIterations bounds the one intrinsic whose time is not that of its input: about 0.1 s.
const maxIterations = 200_000

// pbkdf2Key(name, password, salt, iterations, length) -> bytes.
func pbkdf2Key(a arguments) (json.RawMessage, error) {
	newHash, err := a.hasher(0)
	if err != nil {
		return nil, err
	}
	password, err := a.bytes(1)
	if err != nil {
		return nil, err
	}
	salt, err := a.bytes(2)
	if err != nil {
		return nil, err
	}
	iterations, err := a.integer(3, 1, maxIterations)
	if err != nil {
		return nil, err
	}
	length, err := a.integer(4, 1, int64(newHash().Size()))
	if err != nil {
		return nil, err
	}
	key, err := pbkdf2.Key(newHash, string(password), salt, int(iterations), int(length))
	if err != nil {
		return nil, valueError("%v", err)
	}
	return bytesResult(key), nil
}
