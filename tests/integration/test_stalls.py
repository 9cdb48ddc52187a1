"""Peers that stall, stop half-way or never stop: nobody else waits for them, and waiting costs no processor time."""

import socket
import threading
import time

from lab import LabCase, main
from lab.talk import PATIENCE_S


class Pipelines(LabCase):
    """What is waiting to be sent to one side, while the session waits for something else."""

    def unread(self, count, last):
        """A client that has asked `count` refused things and then `last`, and has read nothing."""
        client = self.gw.client()
        threading.Thread(target=client.sock.sendall, daemon=True, args=(
            b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n" * count + last,)).start()
        return client

    def test_answers_go_out_while_the_next_request_waits(self):
        names = self.name_server(lambda question: None)
        self.gw = self.gateway(allow=["*.slow.test"], names=names, dns="timeout = 60s\ntries = 1", workers=1,
                               listen=f"address = unix:{self.path('proxy.sock')}\npolicy = main")
        clients = []
        for number, count in enumerate(range(100, 700, 30)):
            name = f"n{number}.slow.test"
            clients.append((count, name, self.unread(
                count, f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())))
        for count, name, client in clients:
            for _ in range(count):
                self.assertEqual(client.response().status, 403)
            names.wait_until_asked(name)
        self.assert_still()

    def test_a_request_goes_out_after_an_early_answer(self):
        asked, read_on = threading.Semaphore(0), threading.Event()

        def answer_blindly(talk):
            while asked.acquire(timeout=PATIENCE_S) and not read_on.is_set():
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            talk.read_all()

        good = self.upstream(answer_blindly, name="good.test")
        self.gw = self.gateway(allow=[good.authority], hosts=[good], workers=1)
        client = self.gw.client()
        with open("/proc/sys/net/ipv4/tcp_wmem", encoding="ascii") as file:
            most = int(file.read().split()[2])
        for number in range(most // 60000 + 6):  # more than the kernel takes for somebody who does not read
            client.request(f"GET http://{good.authority}/ HTTP/1.1", [("X-Long", "x" * 60000)])
            self.gw.decision(number=number + 1)
            time.sleep(0.02)  # an answer before the request would not be taken for one
            asked.release()
            self.assertEqual(client.response().status, 200)
        self.assertEqual(good.connections, 1)
        self.assert_still()
        read_on.set()
        asked.release()
        with good.changed:
            self.assertTrue(good.changed.wait_for(lambda: good.received.count(b"\r\n\r\n") == number + 1, PATIENCE_S))
        self.assert_still()


class Farewells(LabCase):
    def test_who_is_gone_is_not_waited_for(self):
        """What a broken server had said is delivered first, but not to somebody who has gone as well."""
        def break_off(talk):
            talk.send(bytes(8 << 20))
            talk.reset()

        good = self.upstream(break_off, name="good.test")
        self.gw = self.gateway(allow=[good.authority], hosts=[good])
        before = self.gw.descriptors()
        for _ in range(20):
            client = self.gw.tunnel(good.authority)
            client.send("x")
            client.read_exactly(1 << 20)
            client.reset()
        for number in range(20):
            self.gw.close_record(number=number + 1)
        began = time.monotonic()
        self.gw.wait_for_descriptors(before)
        self.assertLess(time.monotonic() - began, 5)


class Floods(LabCase):
    def test_interim_answers_without_end_keep_nobody_waiting(self):
        def flood(talk):
            talk.incoming()
            hints = b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20000
            try:
                while not talk.upstream.enough.is_set():
                    talk.send(hints)
            except OSError:
                pass

        def swallow(client):
            try:
                while client.sock.recv(1 << 20):
                    pass
            except OSError:
                pass

        noisy, good = self.upstream(flood, name="noisy.test"), self.origin(name="good.test")
        noisy.enough = threading.Event()
        self.gw = self.gateway(allow=[noisy.authority, good.authority], hosts=[noisy, good], workers=1)
        client = self.gw.client()
        client.request(f"GET http://{noisy.authority}/ HTTP/1.1")
        client.read_until("103 Early Hints")
        threading.Thread(target=swallow, daemon=True, args=(client,)).start()
        try:
            for _ in range(3):
                self.assertEqual(self.gw.get(f"http://{good.authority}/").status, 200)
        finally:
            noisy.enough.set()


if __name__ == "__main__":
    main()
