package sqlite

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/klauspost/compress/zstd"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

const (
	// maxBase bounds the raw size in bytes of an image that may be a base. Images of small programs
	// share most of their bytes (source, bytecode, bound names); large ones are mostly data.
	maxBase = 256 << 10
	// baseCache bounds the raw bases kept in memory, in bytes, once for the writer and once for readers.
	baseCache = 8 << 20
	// zstdWindow is how far back the compressor looks, in bytes; it decides the compressor's memory.
	zstdWindow = 1 << 20
)

// sealer turns images into rows: compressed, against a base where there is one, and authenticated. It
// belongs to the writer's goroutine.
type sealer struct {
	mac   hash.Hash
	store agentkernel.StoreInfo
	enc   *zstd.Encoder
	dict  int64 // id of the base that enc has as dictionary
	buf   []byte
	bases *lru[baseKey, *imageBase]
}

type baseKey struct {
	program     int64
	fingerprint string
}

type imageBase struct {
	id  int64
	raw []byte
}

func newSealer(key []byte, store agentkernel.StoreInfo) (*sealer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	return &sealer{mac: hmac.New(sha256.New, key), store: store, enc: enc, bases: newLRU[baseKey, *imageBase](baseCache)}, nil
}

// compress gives raw as a zstd frame, valid until the next call. base may be nil.
func (s *sealer) compress(raw []byte, base *imageBase) ([]byte, error) {
	switch {
	case base == nil && s.dict != 0:
		if err := s.enc.ResetWithOptions(nil, zstd.WithEncoderDictDelete()); err != nil {
			return nil, err
		}
		s.dict = 0
	case base != nil && s.dict != base.id:
		if err := s.enc.ResetWithOptions(nil, zstd.WithEncoderDictRaw(dictID, base.raw)); err != nil {
			return nil, err
		}
		s.dict = base.id
	}
	s.buf = s.enc.EncodeAll(raw, s.buf[:0])
	return s.buf, nil
}

// dictID stands in the frames that need a base; which base it is stands in the row.
const dictID = 1

// newDecoder gives what takes frames apart, from several goroutines at once; base may be nil. To make one costs more than to use it.
func newDecoder(base []byte) (*zstd.Decoder, error) {
	opts := []zstd.DOption{zstd.WithDecoderConcurrency(readConns), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(zstdWindow)}
	if base != nil {
		opts = append(opts, zstd.WithDecoderDictRaw(dictID, base))
	}
	return zstd.NewReader(nil, opts...)
}

// decompress is the reverse of compress without a base: size bytes, or an error.
func decompress(frame []byte, size int64) ([]byte, error) {
	dec, err := newDecoder(nil)
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return decompressWith(dec, frame, size)
}

// decompressWith takes no more memory than size says, whatever the frame is.
func decompressWith(dec *zstd.Decoder, frame []byte, size int64) ([]byte, error) {
	raw, err := dec.DecodeAll(frame, make([]byte, 0, size))
	if err == nil && int64(len(raw)) != size {
		err = agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "%d bytes where %d were stored", len(raw), size)
	}
	return raw, err
}

// authenticate computes the MAC of an image: over everything that decides what loading it does.
func authenticate(mac hash.Hash, uuid string, im *agentkernel.Image) []byte {
	mac.Reset()
	part(mac, "agentkernel image 1")
	part(mac, uuid)
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], uint64(im.PID))
	binary.BigEndian.PutUint64(numbers[8:], uint64(im.Seq))
	part(mac, numbers[:])
	part(mac, im.Fingerprint)
	part(mac, im.Kernel)
	part(mac, im.Bytes)
	return mac.Sum(nil)
}

const upsertImage = `INSERT INTO images(pid, seq, fingerprint, kernel, base, size, zstd, blob, mac) VALUES (?,?,?,?,?,?,?,?,?)
ON CONFLICT(pid) DO UPDATE SET seq=excluded.seq, fingerprint=excluded.fingerprint, kernel=excluded.kernel,
  base=excluded.base, size=excluded.size, zstd=excluded.zstd, blob=excluded.blob, mac=excluded.mac`

func (w *writer) writeImage(im *agentkernel.Image) error {
	w.sweep = w.sweep || w.filed
	if len(im.Bytes) == 0 {
		return w.deleteImage(im.PID)
	}
	base, err := w.baseFor(im)
	if err != nil {
		return err
	}
	frame, err := w.seal.compress(im.Bytes, base)
	if err != nil {
		return err
	}
	var baseID, fingerprint, inline, outside driver.Value
	if base != nil {
		baseID = base.id
	} else {
		fingerprint = im.Fingerprint
	}
	if len(frame) < BlobThreshold {
		inline = frame
	} else {
		sum, err := w.blobs.Put(context.Background(), frame)
		if err != nil {
			return err
		}
		if err := w.refer(sum, len(frame)); err != nil {
			return err
		}
		outside = sum[:]
	}
	return w.c.exec(upsertImage, int64(im.PID), im.Seq, fingerprint, nullText(string(im.Kernel)), baseID,
		int64(len(im.Bytes)), inline, outside, authenticate(w.seal.mac, w.seal.store.UUIDOf(im.PID), im))
}

// baseFor gives the base of an image: the first image of the same program under the same engine, which is
// this one if there is none yet. nil: the image stands alone.
func (w *writer) baseFor(im *agentkernel.Image) (*imageBase, error) {
	program, err := w.c.int("SELECT program FROM processes WHERE pid = ?", int64(im.PID))
	if err != nil || program == 0 {
		return nil, err
	}
	key := baseKey{program, im.Fingerprint}
	if b, ok := w.seal.bases.get(key); ok {
		return b, nil
	}
	r, found, err := w.c.one("SELECT id, size, zstd FROM image_bases WHERE program = ? AND fingerprint = ?", program, im.Fingerprint)
	if err != nil {
		return nil, err
	}
	var b *imageBase
	if found {
		raw, err := decompress(r.blob(2), min(r.int(1), maxBase))
		if err != nil { // images that stand alone are larger, not wrong
			w.log.Warn("the base of a program's images is damaged; new images are stored whole", "program", program, "error", err)
			return nil, nil
		}
		b = &imageBase{r.int(0), raw}
	} else if b, err = w.makeBase(key, im.Bytes); b == nil || err != nil {
		return nil, err
	}
	w.seal.bases.put(key, b, int64(len(b.raw)))
	return b, nil
}

func (w *writer) makeBase(key baseKey, raw []byte) (*imageBase, error) {
	if len(raw) > maxBase {
		return nil, nil
	}
	frame, err := w.seal.compress(raw, nil)
	if err != nil || len(frame) >= BlobThreshold {
		return nil, err
	}
	r, _, err := w.c.one("INSERT INTO image_bases(program, fingerprint, size, zstd) VALUES (?,?,?,?) RETURNING id",
		key.program, key.fingerprint, int64(len(raw)), frame)
	if err != nil {
		return nil, err
	}
	return &imageBase{r.int(0), raw}, nil
}

// deleteImage removes a process's image, and its base once no other image needs it.
func (w *writer) deleteImage(pid agentkernel.PID) error {
	r, found, err := w.c.one("DELETE FROM images WHERE pid = ? RETURNING base", int64(pid))
	if err != nil || !found || r.isNull(0) {
		return err
	}
	gone, found, err := w.c.one(`DELETE FROM image_bases WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM images WHERE base = ?1)
RETURNING program, fingerprint`, r.int(0))
	if err == nil && found {
		w.seal.bases.remove(baseKey{gone.int(0), gone.text(1)})
	}
	return err
}

// imageCache keeps raw images that were appended a short while ago, so that parking and soon unparking a
// process neither compresses on its path nor touches the disk. Safe for concurrent use.
type imageCache struct {
	mu     sync.Mutex
	images *lru[agentkernel.PID, *agentkernel.Image]
}

func newImageCache(max int64) *imageCache {
	return &imageCache{images: newLRU[agentkernel.PID, *agentkernel.Image](max)}
}

func (c *imageCache) put(im *agentkernel.Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(im.Bytes) == 0 {
		c.images.remove(im.PID)
		return
	}
	c.images.put(im.PID, im, imageSize(im))
}

func (c *imageCache) get(pid agentkernel.PID) (*agentkernel.Image, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.images.get(pid)
}

func (c *imageCache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images = newLRU[agentkernel.PID, *agentkernel.Image](c.images.max)
}

func imageSize(im *agentkernel.Image) int64 {
	return int64(len(im.Bytes) + len(im.Kernel) + len(im.Fingerprint))
}

// openImage reads an image row: seq, fingerprint, kernel, base id, size, zstd, blob, mac, base size, base zstd.
func (r *reads) openImage(ctx context.Context, pid agentkernel.PID, v row) (agentkernel.Image, error) {
	corrupt := func(format string, args ...any) (agentkernel.Image, error) {
		return agentkernel.Image{}, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", format, args...).WithPID(pid).
			WithHint("the process can be replayed from its journal")
	}
	size := v.int(4)
	if size > r.cfg.MaxImage || size < 0 {
		return corrupt("the image has %d bytes; at most %d are read", size, r.cfg.MaxImage)
	}
	frame := v.blob(5)
	if !v.isNull(6) {
		sum, err := blob.ParseSum(v.blob(6))
		if err == nil {
			frame, err = r.blobs.Get(ctx, sum)
		}
		if err != nil {
			return corrupt("the image cannot be read: %w", err)
		}
	}
	var raw []byte
	var err error
	if v.isNull(3) {
		raw, err = decompress(frame, size)
	} else {
		dec, damaged := r.base(v.int(3), v.int(8), v.blob(9))
		if damaged != nil {
			return corrupt("the base of the image is damaged: %w", damaged)
		}
		raw, err = decompressWith(dec, frame, size)
	}
	if err != nil {
		return corrupt("the image is damaged: %w", err)
	}
	im := agentkernel.Image{PID: pid, Seq: v.int(0), Fingerprint: v.text(1), Bytes: raw}
	if !v.isNull(2) {
		im.Kernel = []byte(v.text(2))
	}
	if !hmac.Equal(authenticate(hmac.New(sha256.New, r.cfg.Key), r.info.UUIDOf(pid), &im), v.blob(7)) {
		return corrupt("the image was changed, or written with the key of another data directory")
	}
	return im, nil
}

// base gives what takes frames apart that need a base. Ids are never used twice, so it may be cached for ever.
func (r *reads) base(id, size int64, frame []byte) (*zstd.Decoder, error) {
	r.mu.Lock()
	dec, ok := r.bases.get(id)
	r.mu.Unlock()
	if ok {
		return dec, nil
	}
	raw, err := decompress(frame, min(size, maxBase))
	if err != nil {
		return nil, err
	}
	if dec, err = newDecoder(raw); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bases.put(id, dec, int64(len(raw)))
	return dec, nil
}
