"""Names and addresses: what is asked, what is believed, what is dialled (area dns)."""

import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.request

from lab import Answer, LabCase, main, record
from lab.names import A, NXDOMAIN, NameServer, SERVFAIL, encode_name, raw_record
from lab.upstream import Upstream, echo


class DnsCase(LabCase):
    def lab(self, answers, allow=("*.test:1-65535",), **more):
        self.names = self.name_server(answers)
        self.gw = self.gateway(allow=list(allow), names=self.names, **more)
        return self.gw

    def refused(self, host, port, reason):
        status = 504 if reason.endswith("timeout") else 403 if reason in ("address-denied", "not-allowed") else 502
        return self.assert_refused(self.gw.refused_connect(f"{host}:{port}"), status, reason)

    def took(self, host, port):
        started = time.monotonic()
        self.gw.tunnel(f"{host}:{port}").send("x").expect("x")
        return time.monotonic() - started

    def same_port(self, port, address):
        """Another server on the port of the first, on its own address."""
        return self._own(Upstream(None, address, echo, port=port))


class Asking(DnsCase):
    def test_D01_a_denied_name_is_never_asked_for(self):
        self.lab({}, allow=["good.test"], deny=["*.evil.test"])
        for host in ("secret123.evil.test", "secret456.other.example"):
            self.assertEqual(self.gw.refused_connect(f"{host}:443").status, 403)
            self.assertEqual(self.gw.get(f"http://{host}/").status, 403)
            self.assertEqual(self.gw.socks_code(host, 443), 2)
        self.assertEqual(self.names.questions, [])

    def test_literals_and_localhost_are_never_asked_for(self):
        good = self.upstream()
        self.lab({}, allow=[good.literal, f"localhost:{good.port}", f"*.localhost:{good.port}"])
        self.gw.tunnel(good.literal).send("x").expect("x")
        for host in ("localhost", "x.localhost", "LOCALHOST."):
            self.assertIn(self.gw.refused_connect(f"{host}:{good.port}").status, (200, 502))
        self.assertEqual(self.names.questions, [])

    def test_D08_the_name_judged_is_the_name_asked(self):
        good = self.upstream()
        self.lab({"good.test": [good.address]}, allow=[f"good.test:{good.port}", f"single:{good.port}"])
        self.gw.tunnel(f"Good.TEST.:{good.port}").send("x").expect("x")
        self.assertEqual({question.name for question in self.names.questions}, {"good.test"})
        self.refused("single", good.port, "dns-nxdomain")
        self.assertEqual({question.name for question in self.names.questions}, {"good.test", "single"})

    def test_each_name_is_asked_once_per_ttl_and_type(self):
        good = self.upstream()
        self.lab({"good.test": [good.address]}, workers=1)
        for _ in range(10):
            self.gw.tunnel(f"good.test:{good.port}").close()
        self.assertEqual(len(self.names.asked("good.test", "A")), 1)
        self.assertLessEqual(len(self.names.asked("good.test", "AAAA")), 1)

    def test_D20_a_burst_for_one_name_asks_at_most_once_per_worker_and_type(self):
        good = self.upstream()

        def late(question):
            if question.type == "A":
                return Answer([record("good.test", good.address)], delay=0.3)
            return Answer(delay=0.3)

        self.lab({"good.test": late})
        results = []

        def connect():
            try:
                results.append(self.gw.refused_connect(f"good.test:{good.port}").status)
            except (AssertionError, OSError) as error:
                results.append(error)

        threads = [threading.Thread(target=connect) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [200] * 100)
        self.assertLessEqual(len(self.names.asked("good.test", "A")), 2)
        self.assertLessEqual(len(self.names.asked("good.test", "AAAA")), 2)

    def test_a_burst_of_1000_asks_one_question_of_each_type(self):
        good = self.upstream(backlog=1024)
        held = []

        def late(question):
            held.append(question)
            return Answer([record("good.test", good.address)] if question.type == "A" else [], delay=0.5)

        self.lab({"good.test": late}, workers=1)
        clients = [self.gw.client() for _ in range(1000)]
        for client in clients:
            client.request(f"CONNECT good.test:{good.port} HTTP/1.1")
        self.assertEqual({client.response("CONNECT").status for client in clients}, {200})
        for client in clients[:100]:  # within the TTL
            client.close()
            self.gw.tunnel(f"good.test:{good.port}").close()
        self.assertEqual(sorted(question.type for question in self.names.questions), ["A", "AAAA"])

    def test_negative_answers_are_kept_for_a_moment(self):
        self.lab({}, workers=1, dns="negative-ttl = 60s")
        for _ in range(5):
            self.refused("missing.test", 443, "dns-nxdomain")
        self.assertEqual(len(self.names.asked("missing.test", "A")), 1)

    def test_the_hosts_file_comes_first(self):
        good = self.upstream()
        self.lab({"good.test": ["127.0.0.99"]}, hosts={"good.test": good.address})
        self.gw.tunnel(f"good.test:{good.port}").send("x").expect("x")
        self.assertEqual(self.names.questions, [])


    def test_another_hosts_file_counts_without_a_reload(self):
        first = self.upstream()
        second = self.same_port(first.port, "127.0.0.88")
        self.lab({}, hosts={"good.test": first.address}, workers=1)
        self.gw.tunnel(f"good.test:{first.port}").send("x").expect("x")
        self.write("hosts.new", f"{second.address} good.test\n")
        os.rename(self.path("hosts.new"), self.path("hosts"))
        deadline = time.monotonic() + 5
        while second.connections == 0 and time.monotonic() < deadline:
            self.gw.tunnel(f"good.test:{first.port}").send("x").expect("x")
        self.assertGreater(second.connections, 0)


class Believing(DnsCase):
    def test_D02_the_address_that_was_judged_is_the_one_dialled(self):
        good = self.upstream()
        secret = self.same_port(good.port, "127.0.0.9")
        asked = []

        def rebind(question):
            if question.type != "A":
                return Answer()
            asked.append(question)
            return Answer([record("good.test", good.address if len(asked) == 1 else "127.0.0.9", ttl=0)])

        self.lab({"good.test": rebind}, allow_addresses="127.0.0.2/32")
        statuses = {self.gw.refused_connect(f"good.test:{good.port}").status for _ in range(30)}
        self.assertLessEqual(statuses, {200, 403})
        self.assertGreater(len(asked), 25)  # a TTL of 0 is kept by nobody
        self.assert_untouched(secret)

    def test_D03_a_resolver_failure_is_a_failure(self):
        good = self.upstream()
        secret = self.same_port(good.port, "127.0.0.9")
        self.lab({"good.test": lambda question: Answer(rcode=SERVFAIL)}, allow_addresses="127.0.0.2/32")
        body = self.refused("good.test", good.port, "dns-failure")
        self.assertEqual(body["error"], "failed")
        self.assert_untouched(good, secret)

    def test_D04_forbidden_answers_are_dropped_and_none_left_is_a_denial(self):
        good = self.upstream()
        secret = self.same_port(good.port, "127.0.0.9")
        self.lab({"mixed.test": ["127.0.0.9", "127.0.0.2", "::1"], "bad.test": ["127.0.0.9", "::1"]},
                 allow_addresses="127.0.0.2/32")
        self.gw.tunnel(f"mixed.test:{good.port}").send("x").expect("x")
        decision = self.gw.decision("mixed.test")
        self.assertEqual(decision["addr"], "127.0.0.2")
        self.assertRegex(decision["message"], r"^not dialled: (127\.0\.0\.9|::1), a loopback address, and 1 more$")
        body = self.refused("bad.test", good.port, "address-denied")
        self.assertIn("loopback", body["message"])
        self.assertIn(self.gw.decision("bad.test")["addr"], ("127.0.0.9", "::1"))
        self.assert_untouched(secret)

    def test_P05_an_IPv4_address_inside_an_IPv6_one_is_judged_by_it(self):
        forms = ["::ffff:{}", "::{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "2606:4700::5efe:{}"]
        hidden = {}
        for inner in ("127.0.0.9", "169.254.169.254", "10.0.0.1"):
            one, two, three, four = (int(part) for part in inner.split("."))
            hexadecimal = f"{one:02x}{two:02x}:{three:02x}{four:02x}"
            inverted = f"{one ^ 255:02x}{two ^ 255:02x}:{three ^ 255:02x}{four ^ 255:02x}"
            addresses = [form.format(inner) for form in forms]
            addresses += [f"2002:{hexadecimal}::1", f"2001:0:808:808:0:1234:{inverted}"]
            for number, address in enumerate(addresses):
                hidden[f"h{one}-{number}.test"] = [address]
        hidden["local.test"] = ["64:ff9b:1::8.8.8.8"]  # a public address inside, translated who knows where
        self.lab(hidden, allow=["*.test"], allow_addresses=None)
        for host, addresses in hidden.items():
            with self.subTest(address=addresses[0]):
                self.refused(host, 443, "address-denied")

    def test_D05_the_smallest_ttl_of_a_chain_counts(self):
        first = self.upstream()
        second = self.same_port(first.port, "127.0.0.3")
        target = [first.address]

        def chain(question):
            records = [raw_record("good.test", 5, 1, encode_name("alias.test"))]
            if question.kind == A:
                records.append(record("alias.test", target[0], ttl=86400))
            return Answer(records)

        self.lab({"good.test": chain}, workers=1)
        self.gw.tunnel(f"good.test:{first.port}").send("x").expect("x")
        target[0] = "127.0.0.3"
        deadline = time.monotonic() + 10
        while second.connections == 0 and time.monotonic() < deadline:
            self.gw.tunnel(f"good.test:{first.port}").send("x").expect("x")
        self.assertGreater(second.connections, 0)

    def test_D05_a_chain_in_a_circle_ends(self):
        self.lab({"good.test": lambda question: Answer([
            raw_record("good.test", 5, 60, encode_name("b.test")), raw_record("b.test", 5, 60, encode_name("good.test"))])})
        self.assertEqual(self.gw.refused_connect("good.test:443").status, 502)

    def test_the_rule_judges_the_name_asked_not_where_a_chain_leads(self):
        good = self.upstream()
        self.lab({"good.test": lambda question: Answer(
            [raw_record("good.test", 5, 60, encode_name("cdn.elsewhere.example"))]
            + ([record("cdn.elsewhere.example", good.address)] if question.kind == A else []))},
                 allow=[f"good.test:{good.port}"])
        self.gw.tunnel(f"good.test:{good.port}").send("x").expect("x")

    def test_D07_truncated_answers_are_asked_again_over_tcp_on_the_same_port(self):
        good = self.upstream()

        def large(question):
            records = [record("good.test", f"127.0.1.{n}") for n in range(60)] if question.type == "A" else []
            return Answer([record("good.test", good.address)] * (question.type == "A") + records, truncated=True)

        self.lab({"good.test": large}, allow_addresses="127.0.0.2/32")
        self.gw.tunnel(f"good.test:{good.port}").send("x").expect("x")
        self.assertTrue(self.names.asked("good.test", transport="tcp"))

    def test_D14_the_hosts_file_passes_the_guard_too(self):
        secret = self.upstream(address="127.0.0.9", name="good.test")
        gw = self.gateway(allow=[secret.authority], hosts=[secret], allow_addresses=None)
        self.assert_refused(gw.refused_connect(secret.authority), 403, "address-denied")
        self.assert_untouched(secret)
        gw.stop()
        gw = self.gateway(allow=[secret.authority], hosts=[secret], allow_addresses="127.0.0.9/32")
        gw.tunnel(secret.authority).send("x").expect("x")

    def test_D16_answers_that_are_none_fail_in_time(self):
        def nonsense(question):
            header = question.wire[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"
            address = raw_record("x.test", A, 60, b"\x7f\x00\x00\x02")
            loop = b"\xc0\x0c"
            return {"wrongid": Answer([record(question.name, "127.0.0.2")], id=question.id ^ 0x5555),
                    "wrongquestion": Answer([record("other.test", "127.0.0.2")],
                                            section=encode_name("other.test") + question.section[-4:]),
                    "otherowner": Answer([record("other.test", "127.0.0.2")]),
                    "empty": Answer(raw=b""), "short": Answer(raw=question.wire[:5]),
                    "headeronly": Answer(raw=header), "garbage": Answer(raw=bytes(range(256)) * 4),
                    "loop": Answer(raw=header + loop + question.section[-4:] + loop + address[-14:]),
                    "cut": Answer(raw=header + question.section + address[:-2]),
                    "longdata": Answer([raw_record(question.name, A, 60, b"\x7f\x00\x00\x02" * 100)]),
                    "shortdata": Answer([raw_record(question.name, A, 60, b"\x7f")]),
                    "huge": Answer([record(question.name, "127.0.0.2")] * 2000)}[question.name.split(".")[0]]

        self.names = self.name_server(nonsense)
        self.gw = self.gateway(allow=["*.test:1-65535"], names=self.names, dns="timeout = 300ms\ntries = 1",
                               allow_addresses=None)
        for kind in ("wrongid", "wrongquestion", "otherowner", "empty", "short", "headeronly", "garbage", "loop", "cut",
                     "longdata", "shortdata"):
            with self.subTest(kind=kind):
                response = self.gw.refused_connect(f"{kind}.test:443")
                self.assertIn(response.status, (502, 504), response)
                self.assertRegex(self.gw.decision(f"{kind}.test")["reason"], "^dns-")
        self.assertIn(self.gw.refused_connect("huge.test:443").status, (403, 502, 504))


class Waiting(DnsCase):
    def test_D13_a_lost_answer_of_one_type_does_not_hold_the_other(self):
        good = self.upstream()
        self.lab({"good.test": lambda question: Answer([record("good.test", good.address)])
                  if question.type == "A" else None})
        self.assertLess(self.took("good.test", good.port), 2)  # which is the time of one try

    def test_D13_silence_ends_at_the_deadline(self):
        self.lab({"good.test": lambda question: None}, dns="timeout = 300ms\ntries = 2")
        started = time.monotonic()
        self.refused("good.test", 443, "dns-timeout")
        self.assertLess(time.monotonic() - started, 5)

    def test_a_client_that_leaves_while_a_name_is_looked_up(self):
        self.lab({"good.test": lambda question: None}, dns="timeout = 300ms\ntries = 1")
        for leave in ("reset", "close"):
            client = self.gw.client()
            client.request("CONNECT good.test:443 HTTP/1.1")
            self.names.wait_until_asked("good.test")
            getattr(client, leave)()
        self.assertEqual(self.gw.get("http://evil.example/").status, 403)

    def test_a_client_that_has_only_finished_speaking_is_served(self):
        """One that is gone altogether looks the same, and ends when it is answered."""
        good = self.upstream()
        release = threading.Event()

        def late(question):
            release.wait(20)
            return [good.address] if question.type == "A" else []
        self.lab({"good.test": late}, workers=1)
        client = self.gw.client()
        client.request(f"CONNECT good.test:{good.port} HTTP/1.1")
        self.names.wait_until_asked("good.test")
        client.finish()
        gone = self.gw.client()
        gone.request(f"CONNECT good.test:{good.port} HTTP/1.1")
        gone.close()
        for _ in range(3):  # their ends have been seen when others have been served
            self.assertEqual(self.gw.get("http://evil.example/").status, 403)
        release.set()
        self.assertEqual(client.response("CONNECT").status, 200)
        close = self.gw.wait_for_record(lambda entry: entry["kind"] == "close")
        self.assertEqual((close["host"], close["cause"]), ("good.test", "client"))
        client.close()

    def test_D17_dead_first_servers_are_passed_over_and_not_asked_first_again(self):
        good = self.upstream()
        names = self.name_server({f"n{number}.test": [good.address] for number in range(5)})
        silent = self._own(NameServer(lambda question: None))
        config = self.config(allow=["*.test:1-65535"], names=names, workers=1).replace(
            f"servers = {names.servers}", f"servers = 127.0.0.1:{self.closed_port('127.0.0.1')}, {silent.servers}, {names.servers}")
        self.gw = self.gateway(config)
        self.assertLess(self.took("n0.test", good.port), 2)
        asked = len(silent.questions)
        self.assertLess(min(self.took(f"n{number}.test", good.port) for number in range(1, 5)), 0.3)
        self.assertEqual(len(silent.questions), asked)

    def test_D11_a_refused_first_address_falls_back_at_once(self):
        good = self.upstream()
        self.lab({"good.test": ["::1", "127.0.0.2"]}, allow_addresses=["127.0.0.2/32", "::1/128"])
        started = time.monotonic()
        self.gw.tunnel(f"good.test:{good.port}").send("x").expect("x")
        self.assertLess(time.monotonic() - started, 5)  # connect-timeout is 10 s
        self.assertEqual(self.gw.decision("good.test")["addr"], "127.0.0.2")

    def test_D19_many_dead_addresses_end_by_the_connect_timeout(self):
        port = self.closed_port()
        self.lab({"dead.test": [f"127.0.2.{n}" for n in range(1, 31)]}, gateway="connect-timeout = 2s")
        started = time.monotonic()
        response = self.gw.refused_connect(f"dead.test:{port}")
        self.assertIn(response.status, (502, 504))
        self.assertLess(time.monotonic() - started, 6)

class Connecting(DnsCase):
    def black_hole(self, address, port=0):
        """Listens with a full backlog: SYNs to it are never answered."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family)
        self.addCleanup(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(4):
            filler = socket.socket(family)
            self.addCleanup(filler.close)
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname()[:2])
        return listener.getsockname()[1]

    def test_D11_a_black_hole_before_it_costs_its_time_once(self):
        good = self.upstream()
        self.black_hole("::1", good.port)
        self.lab({"good.test": ["::1", good.address]}, allow_addresses=["127.0.0.2/32", "::1/128"], workers=1)
        first = self.took("good.test", good.port)
        self.assertLess(first, 5)  # connect-timeout is 10 s
        self.assertGreaterEqual(first, 0.2)
        # The worker knows now who answers: it no longer waits 250 ms for the other.
        self.assertLess(min(self.took("good.test", good.port) for _ in range(8)), 0.2)
        self.assertEqual(self.gw.decision("good.test", 2)["addr"], good.address)

    def test_D19_many_dead_addresses_end_by_the_connect_timeout_and_are_counted(self):
        port = self.black_hole("127.0.0.50")
        for n in range(1, 31, 2):  # every other one is silent, the others refuse
            self.black_hole(f"127.0.2.{n}", port)
        self.lab({"dead.test": [f"127.0.2.{n}" for n in range(1, 31)]}, gateway="connect-timeout = 1s")
        started = time.monotonic()
        response = self.gw.refused_connect(f"dead.test:{port}")
        self.assertIn(response.status, (502, 504))
        self.assertLess(time.monotonic() - started, 10)  # one after the other they would take 15 s
        self.assertRegex(self.gw.decision("dead.test")["message"], r"\(tried \d+ of 30 addresses\)$")

    def test_a_client_that_has_left_ends_its_look_up_and_its_connection(self):
        """Its record is there while the name server, and who connects, would go on for long."""
        port = self.black_hole("127.0.0.50")
        hosts = [f"n{number}.test" for number in range(4)]
        self.lab({**{host: lambda question: None for host in hosts}, "deaf.test": ["127.0.0.50"]}, dns="timeout = 60s\ntries = 1",
                 gateway="connect-timeout = 10m", allow_addresses="127.0.0.50/32",
                 more=f"[listen unix]\naddress = unix:{self.path('u')}\npolicy = main\n")
        for host, listener, leave in zip((*hosts, "deaf.test"), ("main", "unix", "main", "unix", "main"), ("reset", "close") * 2 + ("reset",)):
            with self.subTest(host=host, listener=listener, leave=leave):
                client = self.gw.client(listener)
                client.request(f"CONNECT {host}:{port} HTTP/1.1")
                self.names.wait_until_asked(host)
                getattr(client, leave)()
                close = self.gw.wait_for_record(lambda entry: entry["kind"] == "close" and entry["host"] == host)
                decisions = [entry for entry in self.gw.records("decision") if entry["id"] == close["id"]]
                self.assertEqual((close["cause"], close["addr"], close["bytes_up"], len(decisions)), ("client", None, 0, 1))
                self.assertEqual((decisions[0]["verdict"], decisions[0]["reason"], decisions[0]["host"]), ("allow", None, host))
        self.assertEqual(self.gw.get("http://evil.example/").status, 403)

    def test_outcomes_are_different_words_in_answer_record_and_metric(self):
        silent = self.black_hole("127.0.0.50")
        names = self.name_server({
            "nx.test": Answer(rcode=NXDOMAIN), "nodata.test": [], "servfail.test": Answer(rcode=SERVFAIL),
            "silent.test": lambda question: None, "refused.test": ["127.0.0.51"],
            "unreachable.test": ["255.255.255.255"], "deaf.test": ["127.0.0.50"]})
        config = self.config(allow=["*.test:1-65535"], names=names, gateway="connect-timeout = 500ms",
                             dns="timeout = 300ms\ntries = 1", allow_addresses=["127.0.0.0/8", "255.255.255.255/32"])
        self.gw = self.gateway(config.replace("admin = none", "admin = 127.0.0.1:0"))
        reasons = {"nx": "dns-nxdomain", "nodata": "dns-nxdomain", "servfail": "dns-failure", "silent": "dns-timeout",
                   "refused": "connect-refused", "unreachable": "connect-unreachable", "deaf": "connect-timeout"}
        for host, reason in reasons.items():
            with self.subTest(host=host):
                self.refused(f"{host}.test", silent, reason)
                record = self.gw.decision(f"{host}.test")
                self.assertEqual(record["reason"], reason)
                self.assertEqual("does not exist" in record["message"], host == "nx", record["message"])
                self.assertEqual("exists but has no address" in record["message"], host == "nodata", record["message"])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.gw.port('admin')}/metrics", timeout=20) as answer:
            metrics = answer.read().decode()
        for reason in set(reasons.values()):
            self.assertRegex(metrics, rf'(?m)^srt_gateway_\w+{{[^}}]*reason="{reason}"[^}}]*}} [12]$')


def in_namespaces(case, flags, before):
    """What starts a gateway in namespaces of its own, after `before` was run in them."""
    if os.geteuid() != 0 or subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode != 0:
        case.skipTest("needs root and namespaces")
    return ["unshare", *flags, "sh", "-c", before + ' && exec "$@"', "sh"]


class SystemServers(DnsCase):
    """`servers = system`, with an /etc of the test's own. resolv.conf(5) knows no ports, so these name servers have 53."""

    def system(self, resolv_conf, **more):
        os.makedirs(self.path("etc"), exist_ok=True)
        wrapper = in_namespaces(self, ["--mount"], f"mount --bind {self.path('etc')} /etc")
        self.write("etc/resolv.conf", resolv_conf)
        config = self.config(allow=["*.test:1-65535"], workers=1, **more)
        self.gw = self.gateway(re.sub("servers = .*", "servers = system", config), wrapper=wrapper)

    def local_server(self, number, answers):
        """On port 53 of an address that no other test run has."""
        if os.geteuid() != 0:
            self.skipTest("needs root for port 53")
        pid = os.getpid()
        return self.name_server(answers, address=f"127.{pid >> 16 & 127 | 128}.{pid >> 8 & 255}.{(pid & 63) * 4 + number}", port=53)

    def test_D08_search_lists_and_ndots_are_not_applied(self):
        good = self.upstream()
        secret = self.same_port(good.port, "127.0.0.9")
        names = self.local_server(1, lambda question: Answer([record(question.name, "127.0.0.9")])
                                  if question.name.endswith("sink.test") else
                                  Answer([record(question.name, good.address)] * (question.type == "A")))
        self.system(f"search sink.test\noptions ndots:5\nnameserver {names.address}\n")
        self.gw.tunnel(f"good.test:{good.port}").send("x").expect("x")
        self.refused("single", good.port, "not-allowed")
        self.assertEqual({question.name for question in names.questions}, {"good.test"})
        self.assert_untouched(secret)

    def test_D10_another_resolv_conf_counts_from_the_next_question_on(self):
        good = self.upstream()
        first = self.local_server(1, lambda question: Answer([record(question.name, good.address)] * (question.type == "A")))
        second = self.local_server(2, lambda question: Answer([record(question.name, good.address)] * (question.type == "A")))
        self.system(f"nameserver {first.address}\n")
        tunnel = self.gw.tunnel(f"first.test:{good.port}").send("x").expect("x")
        self.write("etc/resolv.conf.new", f"nameserver {second.address}\n")
        os.rename(self.path("etc/resolv.conf.new"), self.path("etc/resolv.conf"))
        deadline = time.monotonic() + 5
        for number in range(1000):
            self.gw.tunnel(f"n{number}.test:{good.port}").close()
            if second.questions or time.monotonic() > deadline:
                break
        self.assertTrue(second.questions)
        self.gw.tunnel(f"last.test:{good.port}").close()
        self.assertEqual(first.asked("last.test"), [])
        tunnel.send("still").expect("still")

    def test_D10_a_resolv_conf_that_goes_away_keeps_the_servers(self):
        good = self.upstream()
        names = self.local_server(1, lambda question: Answer([record(question.name, good.address)] * (question.type == "A")))
        self.system(f"nameserver {names.address}\n")
        self.gw.tunnel(f"first.test:{good.port}").close()
        self.write("etc/resolv.conf.new", "")
        os.rename(self.path("etc/resolv.conf.new"), self.path("etc/resolv.conf"))
        self.write("etc/resolv.conf.new", f"nameserver {names.address}\n")
        os.rename(self.path("etc/resolv.conf.new"), self.path("etc/resolv.conf"))
        self.gw.tunnel(f"second.test:{good.port}").close()


class OwnAddresses(DnsCase):
    """A network namespace of the gateway's own, in which addresses come and go. It is spoken to over a Unix socket."""

    def inside(self, *command):
        subprocess.run(["nsenter", "-t", str(self.gw.process.pid), "-n", *command], check=True)

    def wait_for_reason(self, reason):
        deadline = time.monotonic() + 5
        while True:
            body = json.loads(self.gw.refused_connect("good.test:443").body)
            if body["reason"] == reason or time.monotonic() > deadline:
                self.assertEqual(body["reason"], reason)
                return body

    def test_an_address_that_comes_is_denied_and_one_that_goes_is_not(self):
        self.gw = self.gateway(hosts={"good.test": "9.9.9.9"}, allow=["good.test"], allow_addresses=None,
                               listen=f"address = unix:{self.path('in.sock')}\npolicy = main",
                               wrapper=in_namespaces(self, ["--net"], "ip link set lo up"))
        self.wait_for_reason("connect-unreachable")
        self.inside("ip", "address", "add", "9.9.9.9/32", "dev", "lo")
        self.assertIn("of the gateway's own machine", self.wait_for_reason("address-denied")["message"])
        self.inside("ip", "address", "delete", "9.9.9.9/32", "dev", "lo")
        self.wait_for_reason("connect-unreachable")


class Sources(DnsCase):
    def came_from(self, **more):
        seen = []

        def script(talk):
            seen.append(talk.sock.getpeername()[0])
            echo(talk)

        good = self.upstream(script, "good.test")
        self.lab({"good.test": [good.address]}, **more)
        self.gw.tunnel(good.authority).send("x").expect("x")
        return seen[0]

    def test_connections_come_from_the_policys_address(self):
        self.assertEqual(self.came_from(policy="bind-address = 127.0.0.77"), "127.0.0.77")

    def test_connections_go_through_the_policys_interface(self):
        self.came_from(policy="bind-address = 127.0.0.78 lo")

    def test_nothing_comes_from_elsewhere(self):
        good = self.upstream(name="good.test")
        for source in ("203.0.113.9", "::1", "none-such"):
            with self.subTest(source=source):
                self.lab({"good.test": [good.address]}, policy=f"bind-address = {source}")
                self.refused("good.test", good.port, "connect-unreachable")
                self.gw.stop()
        self.assert_untouched(good)

    def test_a_reload_that_changes_it_ends_what_was_kept(self):
        origin = self.origin("good.test")
        config = self.config(allow=[origin.authority], hosts=[origin], policy="bind-address = 127.0.0.81")
        gw = self.gateway(config)
        client = gw.client()
        self.assertEqual(client.get(f"http://{origin.authority}/").status, 200)
        self.assertEqual(client.get(f"http://{origin.authority}/").status, 200)
        self.assertEqual(origin.connections, 1)  # kept
        gw.reload(config.replace("127.0.0.81", "127.0.0.82"))
        self.assertEqual(client.get(f"http://{origin.authority}/").status, 200)
        self.assertEqual(origin.connections, 2)  # but not from there

    def test_bad_values_are_faults(self):
        said = self.check(self.config(policy="bind-address = 10.0.0.300"), status=78)
        self.assertIn("bind-address: `10.0.0.300` is not an IP address or the name of a network interface", said)


if __name__ == "__main__":
    main()
