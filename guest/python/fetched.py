"""What http.fetch gives: an answer with methods. Monty has the same class (guest/monty/builtins.py)."""
import json


class Response:
    """An answer: status, url (behind all redirects), headers (names in lower case), text (None if the body is not text)."""

    def __init__(self, answer):
        self.status = answer["status"]
        self.url = answer["url"]
        self.headers = answer["headers"]
        self.text = answer.get("text")
        self._body = answer.get("body")

    def bytes(self):
        """The body as bytes."""
        return self._body if self._body is not None else self.text.encode()

    def json(self):
        """The body as the value that its JSON stands for."""
        if self.text is None:
            raise ValueError("the body is not text")
        return json.loads(self.text)

    def __repr__(self):
        return "<Response %d>" % self.status


Response.__module__ = "__main__"  # its fields leave a program as those of the program's own classes do
