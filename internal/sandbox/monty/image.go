package monty

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/sandbox/monty/montypb"
)

// An image is: imageVersion, the length of a JSON header (uint32, little-endian), the header, and the
// engine's dump. The bytes are hostile until shown otherwise: the store that keeps them checks their MAC,
// and here a wrong image costs a worker at most.
const (
	imageVersion  = 1
	imageHead     = 1 + 4
	maxHeaderSize = 16 << 20
	// dumpShare: the engine ends itself when heap, dump and message are over the memory limit together, which
	// was measured to happen from 28 % of it on. A program that holds more than a quarter is not dumped.
	dumpShare = 4
)

// imageHeader is what the engine does not know of a program.
type imageHeader struct {
	Fingerprint string           `json:"fp"`
	Program     []byte           `json:"prog"` // digest of source and bound tools
	Fed         int              `json:"fed"`  // feeds sent; 0: nothing has run, and there is no dump
	Micros      uint64           `json:"us"`
	Host        time.Duration    `json:"host,omitempty"`
	Output      int64            `json:"out,omitempty"`
	Flights     map[int64]uint32 `json:"fly,omitempty"`
	Landed      []landedHeader   `json:"land,omitempty"`
	Base        int              `json:"base,omitempty"` // a session: feeds of its first source that were sent, if not all
	Cells       []cellHeader     `json:"pieces,omitempty"`
	Asked       json.RawMessage  `json:"asked,omitempty"` // stands at proc.next with these arguments
	Last        json.RawMessage  `json:"last,omitempty"`
	Left        []int64          `json:"left,omitempty"` // async calls of cells that have ended
}

type landedHeader struct {
	CallID uint32            `json:"id"`
	Reply  agentkernel.Reply `json:"reply"`
}

// Image gives the bytes from which Start continues at the present turn. CodeLimit, and the sandbox goes on,
// if the program holds too much memory to be dumped within its limit.
func (s *sandbox) Image(ctx context.Context) ([]byte, error) {
	if err := s.enterFor(true); err != nil {
		return nil, err
	}
	defer s.leave()
	h := imageHeader{Fingerprint: fingerprint(), Program: s.prog.key[:16], Fed: s.fed, Micros: s.micros,
		Host: s.host, Output: s.output, Flights: s.flights, Base: s.session.base, Cells: s.session.cells, Asked: s.session.asked,
		Last: s.session.last, Left: slices.Sorted(maps.Keys(s.session.left))}
	for _, l := range s.landed {
		h.Landed = append(h.Landed, landedHeader{l.callID, l.reply})
	}
	var dump []byte
	if s.fed > 0 {
		if limit := s.req.Limits.Memory; s.holdsMore(limit / dumpShare) {
			return nil, agentkernel.Errorf(agentkernel.CodeLimit, "image",
				"the program holds %s; dumping it would go over its memory limit of %s and end it", bytesize.InMiB(s.w.heap()), bytesize.InMiB(limit))
		}
		s.w.watch(ctx, housekeeping)
		var err error
		dump, err = s.takeDump()
		s.w.disarm()
		if err != nil {
			s.stage = stageDead
			// A pause may have met the worker at the end of a turn, when it seemed to compute.
			if err = s.w.failed(err); errors.Is(err, errLost) || errors.Is(err, errSuspended) {
				s.lost = err
			}
			return nil, err
		}
	}
	head, err := json.Marshal(h)
	if err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeInternal, "image")
	}
	out := make([]byte, imageHead, imageHead+len(head)+len(dump))
	out[0] = imageVersion
	binary.LittleEndian.PutUint32(out[1:], uint32(len(head)))
	return append(append(out, head...), dump...), nil
}

// dumpRequest is made when it is first needed, so that commands which start no worker do not pay for it.
var dumpRequest = sync.OnceValue(func() []byte {
	return frame(&montypb.Request{Kind: &montypb.Request_Dump{Dump: &montypb.Unit{}}})
})

func (s *sandbox) takeDump() ([]byte, error) {
	if err := s.w.send(dumpRequest()); err != nil {
		return nil, err
	}
	var ev montypb.Event
	if err := s.w.recv(&ev); err != nil {
		return nil, err
	}
	d, ok := ev.Kind.(*montypb.Event_DumpResult)
	if !ok {
		return nil, fmt.Errorf("%w: %T instead of a dump", errProtocol, ev.Kind)
	}
	return d.DumpResult.GetState(), nil
}

// openImage reads everything but the dump, which load hands to a worker.
func (s *sandbox) openImage(image []byte) error {
	corrupt := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeCorrupt, "image", format, args...)
	}
	if len(image) < imageHead || len(image) > s.b.cfg.MaxFrame {
		return corrupt("an image of %d bytes cannot be: at most %d", len(image), s.b.cfg.MaxFrame)
	}
	if image[0] != imageVersion {
		return agentkernel.Errorf(agentkernel.CodeVersion, "image", "the image has form %d, this AgentKernel reads form %d", image[0], imageVersion)
	}
	size := binary.LittleEndian.Uint32(image[1:])
	if size > maxHeaderSize || int(size) > len(image)-imageHead {
		return corrupt("the image's header does not fit into it")
	}
	var h imageHeader
	if err := json.Unmarshal(image[imageHead:imageHead+size], &h); err != nil {
		return corrupt("the image's header is not readable: %w", err)
	}
	if h.Fingerprint != fingerprint() {
		return agentkernel.Errorf(agentkernel.CodeVersion, "image", "the image was made by %q, this is %q", h.Fingerprint, fingerprint()).
			WithHint("the process can be continued by replaying its journal")
	}
	if !bytes.Equal(h.Program, s.prog.key[:16]) {
		return agentkernel.Errorf(agentkernel.CodeVersion, "image", "the image belongs to another program or to tools that have changed").
			WithHint("the process can be continued by replaying its journal")
	}
	if h.Base < 0 || h.Base > len(s.prog.feeds) {
		return corrupt("the image's header says what cannot be")
	}
	if h.Base > 0 {
		s.keepFeeds(h.Base)
		s.session.base = h.Base
	}
	for _, p := range h.Cells {
		if err := s.addCell(p); err != nil {
			return corrupt("a cell of the image's session cannot be read: %w", err)
		}
	}
	s.session.asked, s.session.last = h.Asked, h.Last
	for _, id := range h.Left {
		if s.session.left == nil {
			s.session.left = map[int64]bool{}
		}
		s.session.left[id] = true
	}
	if h.Fed < 0 || h.Fed > len(s.prog.feeds) || h.Output < 0 || h.Host < 0 {
		return corrupt("the image's header says what cannot be")
	}
	s.fed, s.micros, s.host, s.output, s.flights = h.Fed, h.Micros, h.Host, h.Output, h.Flights
	for _, l := range h.Landed {
		s.landed = append(s.landed, landing{l.CallID, l.Reply})
	}
	if h.Fed > 0 {
		s.dump = image[imageHead+size:]
		s.loaded, s.large = s.Running(), len(s.dump) > maxSmallDump
	}
	return nil
}

// load hands the dump to the worker, which emits the turn of the program again; Next takes it from there.
func (s *sandbox) load(ctx context.Context) error {
	s.w.watch(ctx, housekeeping)
	defer s.w.disarm()
	ev, err := s.loadDump()
	if err == nil {
		if s.session.asked != nil && waitsForCell(ev) {
			s.stage, s.dump = stageLoaded, nil
			return nil
		}
		switch k := ev.Kind.(type) {
		case *montypb.Event_Call, *montypb.Event_OsCall, *montypb.Event_ResolveFutures, *montypb.Event_NameLookup:
			s.first, s.stage, s.dump = ev, stageLoaded, nil
			return nil
		case *montypb.Event_Failed:
			err = fmt.Errorf("%w: %s", errProtocol, k.Failed.GetException().GetMessage())
		default:
			err = fmt.Errorf("%w: %T after loading", errProtocol, ev.Kind)
		}
	}
	s.stage = stageDead
	unready := s.w.owed > 0
	cause := s.w.failed(err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if unready || errors.Is(cause, errLost) {
		return errUnready
	}
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "image", "the engine does not take the image: %w", cause)
}

// errUnready says that a worker ended before it came to what it was to do.
var errUnready = errors.New("the worker ended while it was made ready")

func (s *sandbox) loadDump() (*montypb.Event, error) {
	err := s.w.send(frame(&montypb.Request{Kind: &montypb.Request_Load{Load: &montypb.Load{State: s.dump}}}))
	if err != nil {
		return nil, err
	}
	ev := new(montypb.Event)
	return ev, s.w.recv(ev)
}
