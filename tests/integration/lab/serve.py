"""A thread that lets connections in, and one for each of them."""

import threading


def serve(listener, talk, came=None):
    """Calls `talk(sock)` for each connection on a thread of its own, until the listener is closed. `came(sock)` is called
    before, for one after the other as they come; what it returns talk() gets besides."""
    def let_in():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            more = () if came is None else came(sock)
            threading.Thread(target=talk, args=(sock, *more), daemon=True).start()

    threading.Thread(target=let_in, daemon=True).start()
