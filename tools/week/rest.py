"""REST client with a partner's key, as the admin and as the operator, over one connection. Numbers keep all digits."""
import http.client
import json
import time
from decimal import Decimal
from urllib.parse import quote, urlencode, urlsplit


class Rest:
    def __init__(self, stack):
        self.stack = stack
        self.address = urlsplit(stack["baseUrl"]).netloc
        self.connection = None
        self.bearer = None

    def key(self, path, **query):
        return self.ask("GET", path, {"x-api-key": self.stack["apiKey"]["key"]}, query=query)

    def admin(self, method, path, body=None, **query):
        """Request in the context of the organization; logs in again before the access token expires (15 minutes)."""
        if self.bearer is None or time.time() > self.bearer[1]:
            login = self.ask("POST", "/auth/login", {}, self.stack["admin"])
            self.bearer = login["accessToken"], time.time() + 600
        headers = {"authorization": f"Bearer {self.bearer[0]}", "x-org-id": self.stack["organization"]["id"]}
        return self.ask(method, path, headers, body, query)

    def operator(self, method, path, body=None):
        """Request of the platform's operator. The path is below /platform."""
        headers = {"authorization": f"Bearer {self.stack['operator']['token']}"}
        return self.ask(method, f"/platform{path}", headers, body)

    def ask(self, method, path, headers, body=None, query=None):
        if query:
            path += "?" + urlencode({name: value for name, value in query.items() if value is not None})
        text = None if body is None else json.dumps(body)
        if text:
            headers = {**headers, "content-type": "application/json"}
        for is_last in (False, True):
            self.connection = self.connection or http.client.HTTPConnection(self.address, timeout=120)
            try:
                self.connection.request(method, f"/api/v1{path}", text, headers)
                answer = self.connection.getresponse()
                content = answer.read()
                break
            except (http.client.HTTPException, OSError):
                # The idle connection was closed: connect again.
                self.connection.close()
                self.connection = None
                if is_last:
                    raise
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} answered {answer.status}: {content[:500]}")
        return json.loads(content, parse_float=Decimal)


def part(text):
    """Escapes the text for one segment of a path."""
    return quote(text, safe="")
