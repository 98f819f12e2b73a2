"""What stands between the network and NVFlare's server: it listens where it was told to, and lets nobody crowd it.

    with Relay(addresses("10.0.0.5", 8002), lambda: inner_port, each=56) as relay:
        relay.proved(port)             # the connection that the server sees from this port showed a good certificate
        relay.remote(port)             # whose it is

Rules of this file:
1. A connection that has sent nothing costs one file, and the server does not hear of it; after `SILENT` seconds it is
   closed, as is one that has not shown a certificate of this consortium after `UNPROVED`.
2. One address has so many connections and no more. When there are too many that have shown nothing, from however many
   addresses, the oldest of these go: whoever means it is through within a fraction of a second.
3. Bytes are not looked into: the encryption ends in NVFlare's server.
4. An end that vanished without a word (a machine without power, a cut line) is noticed by the kernel's own questions.
"""

import resource
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

SILENT = 10.0
UNPROVED = 30.0
HALF_CLOSED = 5.0  # within which the other end closes, too
WAITING = 512  # connections at most that have not shown a certificate
ROOM = 1 << 18  # bytes on their way in one direction of one connection
AT_ONCE = 8  # times that much before others have their turn
BACKLOG = 1024
REMEMBERED = 4096  # ports whose address is known, the newest
Address = tuple[Any, ...]


def addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, Address]]:
    """The addresses of a host's name; an `OSError` if it has none."""
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in places))


def listening(places: Sequence[tuple[socket.AddressFamily, Address]]) -> list[socket.socket]:
    """Sockets at those of the addresses that are this machine's; the last `OSError` if none is."""
    servers, refusal = [], OSError("no address")
    for family, address in places:
        server = socket.socket(family)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            server.bind(address)
            server.listen(BACKLOG)
            server.setblocking(False)
            servers.append(server)
        except OSError as error:
            server.close()
            refusal = error
    if not servers:
        raise refusal
    return servers


def raise_file_limit() -> None:
    """Let this process, and those that it starts, hold as many files and connections as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, 1 << 20) if hard != resource.RLIM_INFINITY else 1 << 20
    if soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _Flow:
    """Bytes from one socket to another."""

    def __init__(self, source: socket.socket, sink: socket.socket | None) -> None:
        self.source, self.sink = source, sink
        self.buffer = bytearray()
        self.view = memoryview(self.buffer)
        self.begin = self.end = 0
        self.over = False

    @property
    def full(self) -> bool:
        return self.end > self.begin

    def carry(self) -> int:
        """Move what can be moved now; how much came in."""
        total = 0
        if not self.buffer:
            self.buffer = bytearray(ROOM)
            self.view = memoryview(self.buffer)
        for _ in range(AT_ONCE):
            if not self.full:
                if self.over:
                    break
                try:
                    size = self.source.recv_into(self.buffer)
                except BlockingIOError:
                    break
                self.begin, self.end, self.over = 0, size, size == 0
                total += size
            if self.full and not self.flush():
                break
            if self.over:
                break
        return total

    def flush(self) -> bool:
        """Whether all that came in went out."""
        if self.sink is not None:
            with suppress(BlockingIOError):
                while self.full:
                    self.begin += self.sink.send(self.view[self.begin : self.end])
        return not self.full


class _Pair:
    """One connection, and ours to the server behind it as soon as the first bytes came."""

    def __init__(self, outer: socket.socket, origin: str, now: float) -> None:
        self.outer, self.origin, self.since = outer, origin, now
        self.inner: socket.socket | None = None
        self.port = 0
        self.proved = False
        self.closing = 0.0
        self.there, self.back = _Flow(outer, None), _Flow(outer, None)

    def connect(self, port: int) -> socket.socket:
        self.inner = inner = socket.socket()
        inner.setblocking(False)
        inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        inner.connect_ex(("127.0.0.1", port))
        self.port = inner.getsockname()[1]
        self.there.sink, self.back = inner, _Flow(inner, self.outer)
        return inner


class Relay:
    """Carries connections to the port that `target` says, in a thread of its own."""

    def __init__(
        self,
        servers: Sequence[socket.socket],
        target: Callable[[], int],
        each: Callable[[], int],
        *,
        silent: float = SILENT,
        unproved: float = UNPROVED,
    ) -> None:
        self.servers, self.target, self.each = list(servers), target, each
        self.silent, self.unproved = silent, unproved
        self.turned_away: Counter[str] = Counter()
        """By address, how many connections were too many; who reports them takes them out."""
        self._pairs: dict[socket.socket, _Pair] = {}
        self._by_port: dict[int, _Pair] = {}
        self._origins: dict[int, str] = {}
        self._held: Counter[str] = Counter()
        self._waiting: dict[_Pair, None] = {}
        self._good: deque[int] = deque()
        self._selector = selectors.DefaultSelector()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="relay")

    def proved(self, port: int) -> None:
        """A connection, by the port that the server sees, showed a certificate that is good."""
        self._good.append(port)

    def remote(self, port: int) -> str:
        """The address at the other end of a connection, even of one that ended lately."""
        return self._origins.get(port, "")

    def __str__(self) -> str:
        return ", ".join("{}:{}".format(*server.getsockname()) for server in self.servers)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5.0)
        for server in self.servers:
            server.close()

    # the thread

    def _run(self) -> None:
        for server in self.servers:
            self._selector.register(server, selectors.EVENT_READ)
        swept = time.monotonic()
        while not self._over.is_set():
            for key, mask in self._selector.select(0.25):
                end = key.fileobj
                assert isinstance(end, socket.socket)  # noqa: S101 -- nothing else is registered
                if end in self.servers:
                    self._accept(end)
                elif pair := self._pairs.get(end):
                    self._move(pair, end, mask)
            while self._good:
                if pair := self._by_port.get(self._good.popleft()):
                    pair.proved = True
                    self._waiting.pop(pair, None)
            if (now := time.monotonic()) - swept > 0.5:
                self._sweep(now)
                swept = now
        for pair in set(self._pairs.values()):
            self._close(pair)
        self._selector.close()

    def _accept(self, server: socket.socket) -> None:
        for _ in range(64):
            try:
                outer, address = server.accept()
            except BlockingIOError:
                return
            except OSError:  # out of files: whoever waits longest makes room
                self._drop_oldest()
                return
            origin = _origin(str(address[0]))
            if self._held[origin] >= self.each():
                self.turned_away[origin] += 1
                outer.close()
                continue
            if len(self._waiting) >= WAITING:
                self._drop_oldest()
            outer.setblocking(False)
            _keep_asking(outer)
            pair = _Pair(outer, origin, time.monotonic())
            self._held[origin] += 1
            self._waiting[pair] = None
            self._pairs[outer] = pair
            self._selector.register(outer, selectors.EVENT_READ)

    def _drop_oldest(self) -> None:
        if self._waiting:
            pair = next(iter(self._waiting))
            self.turned_away[pair.origin] += 1
            self._close(pair)

    def _move(self, pair: _Pair, end: socket.socket, mask: int) -> None:
        flow, other = (pair.there, pair.back) if end is pair.outer else (pair.back, pair.there)
        try:
            if mask & selectors.EVENT_WRITE:
                other.flush()
            if mask & selectors.EVENT_READ and flow.carry() and pair.inner is None:
                inner = pair.connect(self.target())
                self._pairs[inner] = self._by_port[pair.port] = pair
                self._origins.pop(pair.port, None)
                self._origins[pair.port] = pair.origin
                if len(self._origins) > REMEMBERED:
                    del self._origins[next(iter(self._origins))]
                self._selector.register(inner, selectors.EVENT_WRITE)
            for one in (pair.there, pair.back):
                if one.over and not one.full and not pair.closing:
                    if one.sink is None:
                        self._close(pair)
                        return
                    one.sink.shutdown(socket.SHUT_WR)
                    pair.closing = time.monotonic()
            if pair.there.over and pair.back.over and not pair.there.full and not pair.back.full:
                self._close(pair)
                return
            self._watch(pair)
        except OSError:
            self._close(pair)

    def _watch(self, pair: _Pair) -> None:
        """Wait for what each socket can give or take; one end's reading rests while the other cannot take more."""
        for end, reads, writes in ((pair.outer, pair.there, pair.back), (pair.inner, pair.back, pair.there)):
            if end is None:
                continue
            want = (selectors.EVENT_READ if not reads.full and not reads.over else 0) | (
                selectors.EVENT_WRITE if writes.full else 0
            )
            key = self._selector.get_map().get(end)
            if key is None:
                if want:
                    self._selector.register(end, want)
            elif not want:
                self._selector.unregister(end)
            elif key.events != want:
                self._selector.modify(end, want)

    def _sweep(self, now: float) -> None:
        for pair in list(self._waiting):
            if now - pair.since > (self.silent if pair.inner is None else self.unproved):
                self._close(pair)
        for pair in set(self._pairs.values()):
            if pair.closing and now - pair.closing > HALF_CLOSED:
                self._close(pair)

    def _close(self, pair: _Pair) -> None:
        if self._pairs.pop(pair.outer, None) is None:
            return
        self._waiting.pop(pair, None)
        self._by_port.pop(pair.port, None)
        self._held[pair.origin] -= 1
        if not self._held[pair.origin]:
            del self._held[pair.origin]
        for end in (pair.outer, pair.inner):
            if end is not None:
                self._pairs.pop(end, None)
                with suppress(KeyError, ValueError):
                    self._selector.unregister(end)
                end.close()


def _origin(address: str) -> str:
    """What counts as one address: of the long ones the half that a network is given."""
    return ":".join(address.split(":")[:4]) if ":" in address else address


def _keep_asking(end: socket.socket) -> None:
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if hasattr(socket, name):
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
