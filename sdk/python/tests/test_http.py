"""HTTP and event streams, however the bytes are cut."""

from __future__ import annotations

import unittest

import support  # noqa: F401 - finds the package
from agentkernel._http import Frames, Response, compose
from agentkernel.errors import InvalidArgument, LimitExceeded, Unavailable

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nAgentkernel-Api: 1\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
CLOSED = b"HTTP/1.0 200 OK\r\n\r\nto the end"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def read(pieces: list[bytes]) -> Response:
    response = Response()
    for piece in pieces:
        response.feed(piece)
    return response


class Http(unittest.TestCase):
    def test_responses_in_any_pieces(self) -> None:
        for raw, body, complete in ((PLAIN, b"hello", True), (CHUNKED, b"hello0123456789", True), (CLOSED, b"to the end", False)):
            for size in (1, 2, 3, 7, len(raw)):
                response = read([raw[i : i + size] for i in range(0, len(raw), size)])
                self.assertEqual((response.complete, response.status), (complete, 200))
                self.assertEqual(response.take(), body)
            response.feed(b"")
            self.assertTrue(response.complete)

    def test_no_content(self) -> None:
        response = Response()
        response.feed(EMPTY)
        self.assertEqual(response.status, 204)
        response.feed(b"")

    def test_cut_answers_are_not_complete(self) -> None:
        for raw in (PLAIN, CHUNKED):
            for end in range(len(raw)):
                response = Response()
                response.feed(raw[:end] or b"H")
                response.feed(b"")
                self.assertFalse(response.complete, raw[:end])

    def test_what_is_no_kernel(self) -> None:
        for raw in (b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 what\r\n\r\n", b"x" * 300_000, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with self.assertRaises(Unavailable):
                Response().feed(raw)

    def test_requests(self) -> None:
        raw = compose("POST", "/p", {"a": "x y", "b": True, "c": False, "d": 0, "e": ["1", "2"], "f": ""}, {"k": "é"})
        head, body = raw.split(b"\r\n\r\n")
        self.assertEqual(head.split(b"\r\n")[0], b"POST /api/v1/p?a=x+y&b=true&e=1&e=2 HTTP/1.1")
        self.assertIn(b"Content-Length: 10", head)
        self.assertEqual(body, '{"k":"é"}'.encode())
        with self.assertRaises(InvalidArgument):
            compose("POST", "/p", None, {"k": "\ud800"})
        with self.assertRaises(LimitExceeded):
            compose("POST", "/p", None, {"k": "x" * (65 << 20)})

    def test_frames_in_any_pieces(self) -> None:
        raw = 'id: 1\nevent: output\ndata: {"é": 1}\n\n:\n\nevent: nothing\n\nevent: two\r\ndata: a\r\ndata: b\r\n\r\n'.encode()
        for size in (1, 2, 3, 5, len(raw)):
            frames, found = Frames(), []
            for i in range(0, len(raw), size):
                found += frames.feed(raw[i : i + size])
            self.assertEqual(found, [("output", '{"é": 1}'), ("two", "a\nb")])

    def test_large_events_are_refused(self) -> None:
        frames = Frames(most=100)
        with self.assertRaises(LimitExceeded):
            for _ in range(20):
                frames.feed(b"data: " + b"x" * 50)


if __name__ == "__main__":
    unittest.main()
