"""tests/unit/filters/conformance.tsv once more: what the engine says there, `explain` and the live proxy say too.

Rows whose allowed request would leave this machine are not asked of the live proxy, rows that need a clock or a hello only of
the engine; the last test counts, so that the table cannot slip through."""

import hashlib
import ipaddress
import json
import os
import unittest

from lab import Answer, LabCase, main, record
from lab.names import NXDOMAIN

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "unit", "filters", "conformance.tsv")


class Row:
    def __init__(self, number, line):
        self.number = number
        rules, request, self.verdict, self.rule = line.split("\t")
        self.rules = rules.replace("\\n", "\n").split("\n") if rules else []
        self.front, self.target, *rest = request.split(" ")
        self.words = [word for word in rest if "=" not in word or word.startswith("/")]
        self.options = dict(word.split("=", 1) for word in rest if "=" in word and not word.startswith("/"))
        self.method, self.path = (self.words + [None, None])[:2]
        self.addresses = self.options.get("addr", "").split(",") if "addr" in self.options else []
        self.host, _, port = self.target.rpartition(":")
        self.port = int(port) if port.isdigit() else None

    def section(self, name):
        return f"[policy {name}]\n" + "".join(rule + "\n" for rule in self.rules)

    def of_settings(self):
        return any(rule.startswith(("allowedDomains", "deniedDomains", "deniedResolvedAddresses")) for rule in self.rules)

    def of_localhost(self):
        """Names that no name server is asked for, so that `addr=` can be said to the engine alone."""
        return self.host.lower().rstrip(".").endswith("localhost") and bool(self.addresses)

    def allowed(self):
        return self.verdict == "allow" or self.verdict.startswith("report:")

    def stays_here(self):
        """Whether dialling what it allows stays on loopback."""
        if not self.allowed():
            return True
        places = list(self.addresses)
        try:
            places.append(str(ipaddress.ip_address(self.host.strip("[]"))))
        except ValueError:
            if not places and self.host.lower().rstrip(".").endswith("localhost"):
                places.append("127.0.0.1")
        return all(ipaddress.ip_address(place).is_loopback for place in places)

    def __str__(self):
        return f"conformance.tsv:{self.number}: {self.front} {self.target} {self.words} {self.options} {self.rules}"


def rows():
    with open(TABLE, encoding="utf-8") as file:
        return [Row(number, line.rstrip("\n")) for number, line in enumerate(file, 1) if line.strip() and line[0] != "#"]


class Conformance(LabCase):
    def expected_rule(self, row, name, first_line):
        """The table counts lines from its policy's first rule."""
        prefix, _, line = row.rule.partition(":")
        return f"{name}:{first_line + int(line)}" if prefix == "p" and line.isdigit() else None if row.rule == "-" else row.rule

    def explained(self, row):
        path = self.write("row.ini", row.section("p"))
        if row.verdict == "fault":
            self.tool("explain", "-c", path, "good.test:443", status=78)
            return
        options = []
        if row.front == "http":
            options = ["--method", row.method or "GET", "--path", row.path or "/"]
        for address in row.addresses[:1]:
            options += ["--addr", address]
        if "sni" in row.options:
            options += ["--sni", row.options["sni"]]
        if row.verdict == "malformed":
            self.tool("explain", "-c", path, "--json", *options, row.target, status=64)
            return
        out, _ = self.tool("explain", "-c", path, "--json", *options, row.target, status=0 if row.allowed() else 1)
        said = json.loads(out)
        self.assertEqual(said["verdict"], "allow" if row.allowed() else "deny", said)
        if not row.allowed():
            self.assertEqual(said["reason"], row.verdict)
        self.assertEqual(said["rule"], self.expected_rule(row, "p", 1))

    def test_explain_says_what_the_engine_says(self):
        asked = 0
        for row in rows():
            if (row.of_settings() or row.front not in ("connect", "http") or "now" in row.options or len(row.addresses) > 1
                    or row.options.get("sni") == "none"):
                continue
            asked += 1
            with self.subTest(row=str(row)):
                self.explained(row)
        self.assertGreater(asked, 300)

    def test_the_live_proxy_says_what_the_engine_says(self):
        live = [row for row in rows() if not row.of_settings() and row.front in ("connect", "http", "socks5")
                and row.verdict != "fault" and "now" not in row.options and "sni" not in row.options and row.stays_here()
                and not (row.of_localhost() and not row.allowed())]
        self.assertGreater(len(live), 200)
        answers = {}

        def answer(question):
            addresses = answers.get("now")
            if not addresses:
                return Answer(rcode=NXDOMAIN)
            family = ":" if question.type == "AAAA" else "."
            return Answer([record(question.spelled, address, ttl=0) for address in addresses if (":" in address) == (family == ":")])

        config = self.config(names=self.name_server(answer), listen="address = 127.0.0.1:0\nauth = token", gateway="connect-timeout = 2s",
                             dns="negative-ttl = 0s")
        firsts = {}
        for row in live:
            name = f"r{row.number}"
            firsts[name] = config.count("\n") + 1
            config += row.section(name)
            config += f"[client c{row.number}]\npolicy = {name}\ntoken-sha256 = {hashlib.sha256(name.encode()).hexdigest()}\n"
        gateway = self.gateway(config)
        for row in live:
            with self.subTest(row=str(row)):
                answers["now"] = row.addresses
                self.lived(gateway, row, firsts)

    def lived(self, gateway, row, firsts):
        name = f"r{row.number}"
        with gateway.client() as client:
            if row.front == "socks5":
                code = client.socks(row.host.strip("[]"), row.port, "x", name)[0]
                self.assertEqual(code == 2, not row.allowed())
                return
            headers = [("Proxy-Authorization", f"Bearer {name}"), ("Host", "x.test")]
            line = f"CONNECT {row.target}" if row.front == "connect" else f"{row.method or 'GET'} http://{row.target}{row.path or '/'}"
            client.send((f"{line} HTTP/1.1\r\n" + "".join(f"{key}: {value}\r\n" for key, value in headers) + "\r\n").encode())
            response = client.response(row.method or row.front.upper())
        if row.verdict == "malformed":
            self.assertEqual(response.status, 400, response)
        elif not row.allowed():
            self.assertEqual(response.status, 403, response)
            if row.method != "HEAD":
                body = json.loads(response.body)
                self.assertEqual((body["reason"], body["rule"]), (row.verdict, self.expected_rule(row, name, firsts[name])))
        else:
            self.assertNotIn(response.status, (400, 403, 407), response)


class Table(unittest.TestCase):
    def test_the_table_is_read_whole(self):
        self.assertGreater(len(rows()), 450)


if __name__ == "__main__":
    main()
