"""The studio's server: each request calls one function of the library and answers in JSON."""

import json
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import UserError
from . import exports, review
from .audit import Audits
from .book import LABEL, SKIP
from .project import Project
from .security import Guard

STATIC = Path(__file__).parent / "static"
LOCAL, EVERYWHERE = "127.0.0.1", ("0.0.0.0", "::")
LARGEST = 1_000_000  # bytes of a request
HOUR = "private, max-age=3600"
Asked = dict[str, Any]
Endpoint = Callable[[Request], Awaitable[Response]]


class AsciiJSON(JSONResponse):
    """JSON in ASCII, for file names with any bytes."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


class Pages:
    """The requests: one method for each address."""

    def __init__(self, project: Project) -> None:
        self.project, self.audits = project, Audits(project)

    # ---- label

    def state(self, asked: Asked) -> Any:
        """`shown` is the number of a picture that the page shows: another page may have labelled it."""
        state = self.project.state()
        if "shown" in asked and not state["problem"]:
            name = self.project.name(whole(asked, "shown"))
            facts = {"audited": name in self.project.audited()}
            state["shown"] = self.project.shown(name, self.project.book.labels) | facts
        return state

    def label(self, asked: Asked) -> Any:
        """`before` is the label that the page showed, if it matters."""
        before = text(asked, "before") if "before" in asked else None
        self.project.label(asked.get("numbers"), text(asked, "label"), before)
        return self.project.state()

    def skip(self, asked: Asked) -> Any:
        self.project.book.skip(self.project.name(asked.get("number")))
        return self.project.state()

    def undo(self, asked: Asked) -> Any:
        """The pictures that it was about come first again."""
        event = self.project.book.undo()
        state = self.project.state()
        if event is None:
            return state | {"undone": ""}
        labels = self.project.book.labels
        names = [name for name, *_ in event.changes[:1] if event.what in (LABEL, SKIP) and name in self.project.numbers]
        again = [self.project.shown(name, labels) for name in names]
        numbers = {picture["number"] for picture in again}
        queue = [*again, *(picture for picture in state["queue"] if picture["number"] not in numbers)]
        return state | {"queue": queue, "undone": event.what}

    def add_class(self, asked: Asked) -> Any:
        self.project.book.add_class(text(asked, "name"))
        return self.project.state()

    def rename_class(self, asked: Asked) -> Any:
        self.project.book.rename_class(text(asked, "old"), text(asked, "new"))
        return self.project.state()

    # ---- train

    def train(self, asked: Asked) -> Any:
        self.project.train()
        return self.project.state()

    def train_every(self, asked: Asked) -> Any:
        self.project.train_every(asked.get("count"))
        return self.project.state()

    def cancel(self, asked: Asked) -> Any:
        self.project.training.cancel()
        return self.project.state()

    # ---- review

    def review(self, asked: Asked) -> Any:
        return review.by_class(self.project, text(asked, "class"), page(asked))

    def labelled(self, asked: Asked) -> Any:
        return review.labelled(self.project, text(asked, "class"), page(asked))

    def search(self, asked: Asked) -> Any:
        return review.by_name(self.project, text(asked, "text"), page(asked))

    def similar(self, asked: Asked) -> Any:
        return review.similar(self.project, whole(asked, "number"))

    def duplicates(self, asked: Asked) -> Any:
        return review.duplicates(self.project, page(asked))

    def suspicious(self, asked: Asked) -> Any:
        return review.suspicious(self.project)

    # ---- audit and export

    def audit(self, asked: Asked) -> Any:
        return self.audits.state()

    def start_audit(self, asked: Asked) -> Any:
        return self.audits.start()

    def answer_audit(self, asked: Asked) -> Any:
        return self.audits.answer(asked.get("number"), text(asked, "label"))

    def export(self, asked: Asked) -> Any:
        return exports.make_export(self.project, asked.get("what"))

    # ---- files

    async def picture(self, request: Request) -> Response:
        """By number, never by path."""
        try:
            name = self.project.name(request.path_params["number"])
            content, kind = await run_in_threadpool(
                self.project.source.picture, name, request.query_params.get("size", "large")
            )
        except UserError as error:
            return AsciiJSON({"error": str(error)}, 404)
        return Response(content, media_type=kind, headers={"cache-control": HOUR})

    async def download(self, request: Request) -> Response:
        try:
            path = exports.download(self.project, request.path_params["name"])
        except UserError as error:
            return AsciiJSON({"error": str(error)}, 404)
        return FileResponse(path, filename=path.name)


READ = ("state", "review", "labelled", "search", "similar", "duplicates", "suspicious", "audit")
CHANGE = ("label", "skip", "undo", "add_class", "rename_class")
START = ("train", "train_every", "cancel", "start_audit", "answer_audit", "export")


def make_app(project: Project, hosts: set[str], token: str, any_address: bool = False) -> Guard:
    pages = Pages(project)
    routes: list[Any] = [
        Route("/", lambda request: FileResponse(STATIC / "index.html")),
        Route("/picture/{number:int}", pages.picture),
        Route("/download/{name:str}", pages.download),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    routes += [Route(f"/api/{name}", answering(getattr(pages, name)), methods=["GET"]) for name in READ]
    routes += [Route(f"/api/{name}", answering(getattr(pages, name)), methods=["POST"]) for name in CHANGE + START]
    return Guard(Starlette(routes=routes), hosts, token, any_address)


def answering(function: Callable[[Asked], Any]) -> Endpoint:
    """The result as JSON; errors of a user as one sentence."""

    async def endpoint(request: Request) -> Response:
        try:
            asked = dict(request.query_params) if request.method == "GET" else await read_body(request)
            return AsciiJSON(await run_in_threadpool(function, asked))
        except UserError as error:
            return AsciiJSON({"error": str(error)}, 400)

    return endpoint


async def read_body(request: Request) -> Asked:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST:
            raise UserError("the request is too large.")
    try:
        asked = json.loads(content or b"{}")
    except ValueError as error:
        raise UserError("the request is not JSON.") from error
    if not isinstance(asked, dict):
        raise UserError("the request is not valid.")
    return asked


def text(asked: Asked, name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str):
        raise UserError(f"the request has no {name}.")
    return value


def whole(asked: Asked, name: str) -> int:
    value = str(asked.get(name, "0"))
    if not value.isdecimal() or len(value) > 9:
        raise UserError(f"{name} must be a whole number.")
    return int(value)


def page(asked: Asked) -> int:
    return whole(asked, "page")


# ---- running it


def serve(project: Project, host: str, port: int, browser: bool, said: Callable[[str], None]) -> None:
    """Until Ctrl-C."""
    with closing(project), listen(host, port) as listener, suppress(KeyboardInterrupt):
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that all is closed as by Ctrl-C
        port = listener.getsockname()[1]
        shown = LOCAL if host in EVERYWHERE else f"[{host}]" if ":" in host else host.lower()
        names = {shown, LOCAL, "localhost"}
        hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set())
        token = secrets.token_urlsafe(24)
        address = f"http://{shown}:{port}/?token={token}"
        said(address)
        if browser:
            threading.Timer(0.3, webbrowser.open, (address,)).start()
        app = make_app(project, hosts, token, any_address=host in EVERYWHERE)
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2)
        uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(f"cannot listen on {host}, port {port} ({error.strerror}): choose another --port.") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the end of an answer may wait for 40 ms
    return listener
