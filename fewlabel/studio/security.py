"""Access control of the studio: only the browser with the token, and only the studio's own pages."""

import hmac
import re
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
SAFE = ("GET", "HEAD")
NUMBERS = re.compile(r"(\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\])(:\d+)?")


class Guard:
    """Refuses foreign hosts (DNS rebinding), foreign origins, and requests without the cookie.

    The address that is printed holds a token which works once: it is exchanged for a cookie that scripts cannot read
    and that other sites do not send.
    """

    def __init__(self, app: ASGIApp, hosts: set[str], token: str, any_address: bool = False) -> None:
        """With `any_address` numbers are hosts too; names are not, which may be made to lead here."""
        self._app, self._hosts, self._token, self._any_address = app, hosts, token, any_address
        self._secret = secrets.token_urlsafe(32)
        self._cookie = f"fewlabel-{secrets.token_hex(4)}"  # a name of its own: cookies are shared between ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._refused(request) or self._exchanged(request) or self._unknown(request)
        await (answer or self._app)(scope, receive, with_headers(send))

    def _refused(self, request: Request) -> Response | None:
        if not self._ours(request.headers.get("host", "")):
            return PlainTextResponse("This address is not that of the studio.", 403)
        origin = request.headers.get("origin")
        if origin is not None and not self._ours(urlsplit(origin).netloc):
            return PlainTextResponse("Requests of other pages are refused.", 403)
        if request.method not in SAFE and request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("Requests of other pages are refused.", 403)
        if request.method not in SAFE and not request.headers.get("content-type", "").startswith("application/json"):
            return PlainTextResponse("Only JSON is understood.", 415)
        return None

    def _ours(self, host: str) -> bool:
        if host.lower() in self._hosts:
            return True
        return self._any_address and NUMBERS.fullmatch(host.lower()) is not None

    def _exchanged(self, request: Request) -> Response | None:
        """The token for the cookie, once."""
        token = request.query_params.get("token")
        if token is None or request.url.path != "/" or request.method != "GET":
            return None
        if not self._token or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None if self._known(request) else self._no_entry()
        self._token = ""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict")
        return answer

    def _unknown(self, request: Request) -> Response | None:
        return None if self._known(request) else self._no_entry()

    def _known(self, request: Request) -> bool:
        return hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._secret.encode())

    def _no_entry(self) -> Response:
        return PlainTextResponse(
            "This address works once, in one browser. To open the studio again, stop it with Ctrl-C on the terminal, "
            "start it again, and open the new address: everything is saved.",
            401,
        )


def with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
