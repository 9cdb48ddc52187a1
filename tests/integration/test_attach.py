"""Launchers that attach their sandboxes (include/srt/attach.h), honest and hostile; the launcher is played by the test."""

import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from lab import LabCase, main
from lab.launcher import Launcher
from lab.names import encode_name
from lab.talk import PATIENCE_S, Closed

SO_PASSRIGHTS = 83  # asm-generic/socket.h
PROBE = os.path.realpath(os.path.join(os.environ.get("SRT_TOOLS_DIR", ""), "module_probe.so"))


class AttachCase(LabCase):
    def lab(self, more="", **parts):
        self.good, self.other = self.upstream(name="good.test"), self.upstream(name="other.test")
        self.control = self.path("control.sock")
        config = self.config(allow=[self.good.authority, self.other.authority], hosts=[self.good, self.other], more=more, **parts)
        self.gw_config = config.replace("control = none", f"control = {self.control}")
        self.gw = self.gateway(self.gw_config)
        return self.gw

    def launcher(self):
        launcher = Launcher(self.control)
        self.addCleanup(launcher.close)
        return launcher


class Attaching(AttachCase):
    def test_M01_the_listener_is_the_identity(self):
        self.lab()
        launcher = self.launcher()
        answer = launcher.attach("npm-1")
        # And its own program, by each name that it has.
        program = os.readlink(f"/proc/{self.gw.process.pid}/exe")
        own = [path for path in answer["protect"] if os.path.realpath(path) == program]
        self.assertIn(program, own)
        places = {"hide": [self.path(name) for name in ("gateway.ini", "audit.jsonl", "control.sock")],
                  "protect": [self.path("hosts"), *own]}
        self.assertEqual(answer, {"type": "attached", "sandbox": "npm-1", "policy": "main", "generation": 1, **places})
        tunnel, answer = launcher.connect(self.good.authority)
        self.assertEqual(answer.status, 200)
        tunnel.send("x").expect("x")
        record = self.gw.decision("good.test")
        self.assertEqual((record["sandbox"], record["policy"], record["verdict"]), ("npm-1", "main", "allow"))
        attach = self.gw.records("attach")[0]
        self.assertEqual((attach["sandbox"], attach["command"], attach["peer"]),
                         ("npm-1", "make", f"uid={os.getuid()},pid={os.getpid()}"))

    def test_a_launcher_that_comes_after_a_reload_is_told_the_same(self):
        self.lab()
        before = self.launcher().attach("before")
        self.gw.reload(self.gw_config + "; changed\n")
        after = self.launcher().attach("after")
        self.assertEqual((after["hide"], after["protect"], after["generation"]), (before["hide"], before["protect"], 2))

    def test_M05_the_end_of_the_connection_is_the_end_of_the_sandbox(self):
        self.lab()
        before = self.gw.descriptors()
        launcher = self.launcher()
        launcher.attach()
        tunnel, _ = launcher.connect(self.good.authority)
        tunnel.send("x").expect("x")
        address = launcher.listeners[0].getsockname()
        launcher.sock.close()
        launcher.listeners[0].close()
        tunnel.expect_eof()
        self.assertEqual(self.gw.close_record()["cause"], "detach")
        self.assertEqual(self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")["sandbox"], "box")
        self.gw.wait_for_descriptors(before)
        with self.assertRaises(OSError):
            socket.create_connection(address, PATIENCE_S)
        self.assertEqual(self.launcher().attach()["type"], "attached")  # the name is free again

    def test_L08_what_never_became_a_request_has_its_sandbox(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach("box")
        for data in (b"garbage\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x05\x01\x00\x07"):
            launcher.client().send(data).finish()
        for number in (1, 2, 3):
            entry = self.gw.decision(number=number)
            self.assertEqual((entry["sandbox"], entry["verdict"], entry["host"]), ("box", "deny", None))

    def test_settings_narrow_and_never_widen(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach(network={"allowedDomains": ["good.test", "elsewhere.test"], "deniedDomains": []})
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)
        self.assertEqual(launcher.connect(self.other.authority)[1].status, 403)
        self.assertEqual(launcher.connect("elsewhere.test:443")[1].status, 403)

    def test_a_reason_is_no_way_to_a_terminal(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach(network={"allowedDomains": [], "deniedDomains": ["good.test"],
                                 "deniedDomainReasons": {"good.test": "tab\tbell\a\x1b[2Jdel\x7f\nzwölf\rend"}})
        client = launcher.client()
        client.request(f"GET http://{self.good.authority}/ HTTP/1.1", [("Accept", "text/plain")])
        response = client.response()
        self.assertEqual(response.status, 403)
        self.assertIn("tab?bell??[2Jdel??zwölf?end".encode(), response.body)
        self.assertEqual(response.body.count(b"\n"), 3)
        client.request(f"GET http://{self.good.authority}/ HTTP/1.1", ())
        self.assertIn("\a\x1b[2Jdel", json.loads(client.response().body)["message"])

    def test_an_update_is_in_force_when_it_is_answered(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach()
        tunnel, _ = launcher.connect(self.good.authority)
        stays, _ = launcher.connect(self.other.authority)
        launcher.send({"type": "update", "serial": 7, "network": {"allowedDomains": ["other.test"], "deniedDomains": []}})
        self.assertEqual(launcher.read(), {"type": "updated", "serial": 7, "generation": 1})
        tunnel.expect_eof()
        stays.send("x").expect("x")
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 403)
        self.assertEqual(launcher.read()["type"], "denial")
        launcher.send({"type": "update", "serial": 8, "network": {"allowedDomains": ["*.com"], "deniedDomains": []}})
        rejected = launcher.read()
        self.assertEqual((rejected["type"], rejected["serial"]), ("rejected", 8))
        self.assertIn("*.com", rejected["message"])
        stays.send("y").expect("y")

    def test_equal_lists_are_each_sandboxes_own(self):
        """Sandboxes that bring equal lists share them; neither an update of one nor its end is felt by the others."""
        self.lab()
        lists = {"allowedDomains": ["good.test"], "deniedDomains": ["other.test"]}
        launchers = [self.launcher() for _ in range(4)]
        for number, launcher in enumerate(launchers):
            launcher.attach(f"box-{number}", network=lists)
        launchers[0].send({"type": "update", "serial": 1, "network": {"allowedDomains": ["other.test"]}})
        self.assertEqual(launchers[0].read()["type"], "updated")
        launchers[1].close()
        self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")
        late = self.launcher()
        late.attach("late", network=dict(reversed(lists.items())))
        for launcher, reached, denied in ((launchers[0], self.other, self.good), (launchers[2], self.good, self.other),
                                          (launchers[3], self.good, self.other), (late, self.good, self.other)):
            self.assertEqual(launcher.connect(reached.authority)[1].status, 200)
            self.assertEqual(launcher.connect(denied.authority)[1].status, 403)
            self.assertEqual(launcher.read()["rule"], None if launcher is launchers[0] else "settings:deniedDomains[0]")

    def test_updates_to_equal_lists_are_each_sandboxes_own(self):
        """All at once, as whoever runs a fleet sends them; and back, one by one, with some that end meanwhile."""
        self.lab()
        lists = [{"allowedDomains": ["good.test"], "deniedDomains": ["other.test"]}, {"allowedDomains": ["other.test"], "deniedDomains": ["good.test"]}]
        launchers = [self.launcher() for _ in range(12)]
        for number, launcher in enumerate(launchers):
            launcher.attach(f"box-{number}", network=lists[0])
        for serial, network in enumerate((lists[1], lists[1], lists[0], lists[1]), 1):
            for launcher in launchers:
                launcher.send({"type": "update", "serial": serial, "network": network})
            gone = launchers.pop()
            gone.close()
            for launcher in launchers:
                answer = launcher.read()
                self.assertEqual((answer["type"], answer["serial"]), ("updated", serial), answer)
            for launcher in launchers[:3]:
                reached, denied = (self.good, self.other) if network == lists[0] else (self.other, self.good)
                self.assertEqual(launcher.connect(reached.authority)[1].status, 200)
                self.assertEqual(launcher.connect(denied.authority)[1].status, 403)
                self.assertEqual(launcher.read()["rule"], "settings:deniedDomains[0]")
        late = self.launcher()
        late.attach("late", network=lists[1])
        for launcher in (*launchers[1:], late):
            launchers[0].close()
            self.assertEqual(launcher.connect(self.other.authority)[1].status, 200)
            self.assertEqual(launcher.connect(self.good.authority)[1].status, 403)

    def test_N22_each_of_many_updates_is_in_force_when_it_is_answered(self):
        self.lab()
        launcher, bystander = self.launcher(), self.launcher()
        launcher.attach("changing")
        bystander.attach("bystander")
        other, _ = bystander.connect(self.good.authority)
        for serial in range(1, 101):
            names = ["good.test", "other.test"][serial % 2:][:1]
            launcher.send({"type": "update", "serial": serial, "network": {"allowedDomains": names, "deniedDomains": []}})
            answer = launcher.read()
            while answer["type"] == "denial":
                answer = launcher.read()
            self.assertEqual((answer["type"], answer["serial"]), ("updated", serial))
            statuses = [launcher.connect(server.authority)[1].status for server in (self.good, self.other)]
            self.assertEqual(statuses, [200, 403] if names == ["good.test"] else [403, 200])
        other.send("x").expect("x")  # nobody else's tunnel
        self.assertEqual(bystander.connect(self.other.authority)[1].status, 200)

    def test_N22_an_update_cuts_what_it_no_longer_allows_and_says_why(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach()
        goes, stays = launcher.connect(self.good.authority)[0], launcher.connect(self.other.authority)[0]
        launcher.send({"type": "update", "serial": 1, "network": {"allowedDomains": ["*.test", "other.test"], "deniedDomains": ["good.test"]}})
        self.assertEqual(launcher.read()["type"], "updated")
        goes.expect_eof()
        close = self.gw.wait_for_record(lambda entry: entry["kind"] == "close" and entry["host"] == "good.test")
        self.assertEqual((close["cause"], close["sandbox"]), ("policy", "box"))
        stays.send("x").expect("x")
        # It narrows the gateway's policy and cannot widen it, whatever it says.
        launcher.send({"type": "update", "serial": 2, "network": {"allowedDomains": ["other.test", "elsewhere.test"], "deniedDomains": []}})
        self.assertEqual(launcher.read()["type"], "updated")
        self.assertEqual(launcher.connect("elsewhere.test:443")[1].status, 403)
        stays.send("y").expect("y")

    def test_N22_a_faulty_update_changes_nothing(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach()
        tunnel, _ = launcher.connect(self.good.authority)
        for serial, network in enumerate(({"allowedDomains": "good.test"}, {"allowedDomains": [7]}, {"alowedDomains": []},
                                          {"allowedDomains": ["a b"]}, {"allowedDomains": ["https://good.test/"]}), 1):
            launcher.send({"type": "update", "serial": serial, "network": network})
            answer = launcher.read()
            with self.subTest(network=network):
                self.assertEqual((answer["type"], answer["serial"]), ("rejected", serial))
                self.assertTrue(answer["message"])
        tunnel.send("x").expect("x")
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)

    def test_N22_a_wrong_type_anywhere_in_an_update_is_rejected_and_costs_nobody_his_sandbox(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach()
        tunnel, _ = launcher.connect(self.good.authority)
        values = (None, True, 7, 1.5, "good.test", [], [7], [None], [[]], [{}], {}, {"x": 1})
        wrong = [{"network": value} for value in values if not isinstance(value, dict)] + [{}, {"network": {"x": 1}}]
        for key in ("allowedDomains", "deniedDomains", "deniedResolvedAddresses", "allowUnixSockets"):
            wrong += [{"network": {key: value}} for value in values if value != []]
        for key in ("strictAllowlist", "allowAllUnixSockets"):
            wrong += [{"network": {key: value}} for value in values if value is not True]
        wrong += [{"network": {"deniedDomainReasons": value}} for value in values if value != {}]
        wrong += [{"network": {}, "more": value} for value in values]
        for serial, rest in enumerate(wrong, 1):
            launcher.send({"type": "update", "serial": serial, **rest})
            answer = launcher.read()
            with self.subTest(rest=rest):
                self.assertEqual((answer["type"], answer["serial"]), ("rejected", serial))
                self.assertTrue(answer["message"])
        tunnel.send("x").expect("x")
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)
        launcher.send({"type": "update", "serial": 0, "network": {"allowedDomains": ["other.test"], "deniedDomains": []}})
        self.assertEqual(launcher.read(), {"type": "updated", "serial": 0, "generation": 1})
        tunnel.expect_eof()
        ended = 0
        for serial in values:  # whom to answer is not known: the end, for this launcher only
            if serial == 7:
                continue
            other = self.launcher()
            other.attach("other")
            other.send({"type": "update", "serial": serial, "network": {}})
            self.assertTrue(other.at_end())
            ended += 1
            self.gw.wait_for_record(lambda entry: entry["kind"] == "detach", ended)
        self.assertEqual(launcher.connect(self.other.authority)[1].status, 200)

    def test_a_wrong_type_anywhere_in_an_attach_message_is_refused(self):
        self.lab()
        good = {"type": "attach", "version": 1, "name": "box", "policy": None, "command": "make", "listeners": ["proxy"],
                "network": None}
        values = (None, True, 7, 1.5, "", "a b", [], [7], {}, {"x": 1})
        fits = {"policy": (None,), "command": (None, "", "a b"), "network": (None, {})}
        for key in good:
            for value in values:
                if value in fits.get(key, ()):
                    continue
                launcher = self.launcher()
                launcher.send({**good, key: value}, [launcher.listen()])
                with self.subTest(key=key, value=value):
                    answer = launcher.read()
                    self.assertEqual(answer["type"], "refused")
                    self.assertTrue(answer["message"])
                    self.assertTrue(launcher.at_end())
        self.assertEqual(self.launcher().attach("box")["type"], "attached")

    def test_denials_are_told(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach()
        launcher.connect("evil.test:443")
        denial = launcher.read()
        record = self.gw.decision("evil.test")
        self.assertEqual((denial["type"], denial["host"], denial["port"], denial["front"], denial["reason"], denial["rule"]),
                         ("denial", "evil.test", 443, "connect", "not-allowed", None))
        self.assertEqual((denial["request_id"], denial["message"], denial["policy"], denial["missed"]),
                         (record["id"], record["message"], "main", 0))

    def test_two_sandboxes_do_not_meet(self):
        self.lab()
        first, second = self.launcher(), self.launcher()
        first.attach("first", network={"allowedDomains": ["good.test"], "deniedDomains": []})
        second.attach("second", network={"allowedDomains": ["other.test"], "deniedDomains": []})
        self.assertEqual((first.connect(self.good.authority)[1].status, second.connect(self.good.authority)[1].status), (200, 403))
        self.assertEqual((first.connect(self.other.authority)[1].status, second.connect(self.other.authority)[1].status), (403, 200))
        taken = self.launcher().attach("second")
        self.assertEqual(taken["type"], "refused")
        self.assertIn("second", taken["message"])

    def test_a_reload_reaches_attached_sandboxes(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach()
        tunnel, _ = launcher.connect(self.good.authority)
        with open(self.gw.config_path, encoding="utf-8") as file:
            config = file.read()
        self.gw.reload(config.replace(f"allow = {self.good.authority}\n", ""))
        tunnel.expect_eof()
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 403)
        self.assertEqual(launcher.connect(self.other.authority)[1].status, 200)


    def test_a_policy_that_a_reload_removes_allows_nothing_any_more(self):
        self.lab(more="[policy build]\ninherit = main\nallow-addresses = 127.0.0.0/8\n")
        launcher = self.launcher()
        launcher.attach(policy="build")
        tunnel, answer = launcher.connect(self.good.authority)
        self.assertEqual(answer.status, 200)
        with open(self.gw.config_path, encoding="utf-8") as file:
            config = file.read()
        self.gw.reload(config[:config.index("[policy build]")])
        tunnel.expect_eof()
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 403)
        self.gw.reload(config)
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)


class Choosing(AttachCase):
    def test_one_of_several_policies_must_be_named(self):
        self.lab(more="[policy build]\nallow = x.test\n")
        refused = self.launcher().attach()
        self.assertEqual(refused["type"], "refused")
        for name in ("main", "build"):
            self.assertIn(name, refused["message"])
        self.assertIn("nowhere", self.launcher().attach(policy="nowhere")["message"])
        self.assertEqual(self.launcher().attach(policy="build")["policy"], "build")

    def test_the_uid_says_which_may_be_named(self):
        self.lab(more=f"[policy build]\nallow = x.test\n[client me]\nuid = {os.getuid()}\npolicy = build\n")
        self.assertEqual(self.launcher().attach()["policy"], "build")
        self.assertIn("main", self.launcher().attach("other", policy="main")["message"])
        record = self.gw.wait_for_record(lambda entry: entry["kind"] == "attach")
        self.assertEqual(record["client"], "me")

    def test_the_policy_that_was_named_says_whose_budget_is_spent(self):
        uid, limits = os.getuid(), "max-tunnels = 1\n"
        self.lab(more=f"[policy build]\nallow = good.test:*\nallow-addresses = 127.0.0.0/8\n"
                      f"[client strict]\nuid = {uid}\npolicy = main\n{limits}[client free]\nuid = {uid}\npolicy = build\n")
        for policy, client, second in (("main", "strict", 429), ("build", "free", 200)):
            launcher = self.launcher()
            self.assertEqual(launcher.attach(policy, policy=policy)["policy"], policy)
            self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)
            self.assertEqual(launcher.connect(self.good.authority)[1].status, second)
            self.assertEqual({entry["client"] for entry in self.gw.records("decision") if entry["sandbox"] == policy}, {client})

    def test_another_uid_may_not_attach(self):
        self.lab(more=f"[client other]\nuid = {os.getuid() + 1}\npolicy = main\n")
        refused = self.launcher().attach()
        self.assertEqual(refused["type"], "refused")
        self.assertIn(str(os.getuid()), refused["message"])


class Hostile(AttachCase):
    def refused(self, launcher, *arguments, **more):
        answer = launcher.attach(*arguments, **more)
        self.assertEqual(answer["type"], "refused", answer)
        self.assertTrue(launcher.at_end())
        launcher.close()
        return answer["message"]

    def still_well(self):
        launcher = self.launcher()
        self.assertEqual(launcher.attach("well")["type"], "attached")
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)

    def test_only_listening_stream_sockets_are_taken(self):
        self.lab()
        left, right = socket.socketpair()
        unbound, datagram = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        with left, right, unbound, datagram, open(os.devnull, "rb") as file:
            for wrong in (left, unbound, datagram, file):
                with self.subTest(wrong=wrong):
                    self.refused(self.launcher(), descriptors=[wrong])
        self.still_well()

    def test_a_listener_has_one_owner(self):
        self.lab()
        first = self.launcher()
        first.attach("first")
        self.assertIn("somebody else", self.refused(self.launcher(), "second", descriptors=first.listeners))
        launcher = self.launcher()
        listener = launcher.listen()
        self.assertIn("somebody else", self.refused(launcher, descriptors=[listener, listener]))
        self.still_well()

    def test_descriptors_and_listeners_must_agree(self):
        self.lab()
        before = self.gw.descriptors()
        self.refused(self.launcher(), descriptors=[], listeners=["proxy"])
        launcher = self.launcher()
        self.refused(launcher, descriptors=[launcher.listen(), launcher.listen()], listeners=["proxy"])
        launcher = self.launcher()
        self.refused(launcher, descriptors=[launcher.listen() for _ in range(5)])
        launcher = self.launcher()
        self.refused(launcher, descriptors=[launcher.listen() for _ in range(40)], listeners=["proxy"])
        self.still_well()
        self.gw.wait_for_descriptors(before + 8)  # what well-being takes; 46 came

    def test_each_kind_of_listener_is_a_kind_of_socket(self):
        self.lab()
        for kind in ("proxy", "transparent", "dns-tcp", "dns-udp"):
            launcher = self.launcher()
            wrong = launcher.listen() if kind == "dns-udp" else launcher.datagrams()
            said = self.refused(launcher, descriptors=[wrong], listeners=[kind])
            self.assertIn("not a UDP socket" if kind == "dns-udp" else "not a listening socket", said)
        self.still_well()

    def test_a_resolver_gives_addresses_that_stand_for_names(self):
        self.lab()
        origin = self.good
        launcher, other = self.launcher(), self.launcher()
        for one in (launcher, other):
            one.attach(f"box{id(one)}", [one.listen(), one.datagrams(), one.listen()], listeners=["proxy", "dns-udp", "dns-tcp"])
        question = b"\0\7\1\0\0\1" + bytes(6) + encode_name(origin.name) + b"\0\1\0\1"
        with socket.create_connection(launcher.listeners[2].getsockname(), PATIENCE_S) as stream:
            stream.sendall(len(question).to_bytes(2, "big") + question)
            answer = stream.makefile("rb").read(2 + len(question) + 16)[2:]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(launcher.listeners[1].getsockname())
            sock.send(question)
            self.assertEqual(sock.recv(4096), answer)
        address = socket.inet_ntoa(answer[-4:])
        self.assertRegex(address, r"^198\.1[89]\.")
        talk, response = launcher.connect(f"{address}:{origin.port}")
        self.assertEqual(response.status, 200)
        self.assertEqual(self.gw.decision(origin.name)["port"], origin.port)
        talk.close()
        _, response = other.connect(f"{address}:{origin.port}")  # who was not told does not know
        self.assert_refused(response, 403, "address-denied")

    def test_what_nobody_redirected_goes_nowhere(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach(descriptors=[launcher.listen()], listeners=["transparent"])
        talk = launcher.client()
        talk.request("GET / HTTP/1.1")
        response = talk.response()
        if response.status == 400:
            self.assert_refused(response, 400, "bad-request")
        else:  # where the kernel follows connections it knows that one was meant for the listener itself
            self.assertEqual(response.status, 403)

    def test_datagrams_that_never_come_do_not_keep_the_gateway_busy(self):
        """What its launcher can do to a socket: shut it down, so that it is readable for ever."""
        self.lab()
        launcher = self.launcher()
        sock = launcher.datagrams()
        sock.connect(sock.getsockname())
        launcher.attach(descriptors=[sock], listeners=["dns-udp"])
        sock.shutdown(socket.SHUT_RDWR)
        self.gw.wait_for_stderr(lambda line: "nothing is ever read from it" in line)
        self.assert_still()
        self.still_well()

    def test_garbage_ends_that_connection_only(self):
        self.lab()
        attached = self.launcher()
        attached.attach("attached")
        for data in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", Launcher.frame(b"{"), Launcher.frame(b"[]"),
                     Launcher.frame({"type": "update", "serial": 1, "network": {}}), Launcher.frame(b"[" * 100000)):
            launcher = self.launcher()
            launcher.sock.sendall(data)
            with self.subTest(data=data[:40]):
                self.assertEqual(launcher.read()["type"], "refused")
                self.assertTrue(launcher.at_end())
        attached.send({"type": "attach"})
        self.assertTrue(attached.at_end())
        self.assertEqual(self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")["sandbox"], "attached")
        self.still_well()

    def test_what_is_quoted_in_an_answer_is_cut(self):
        """It may be as long as a message, and longer once it is escaped."""
        self.lab()
        most = (8 << 20) - 1000
        for text in ("k" * most, "\u2028" * (most // 6)):
            for more in ({"network": {text: 1}}, {"network": {"allowedDomains": [text]}}, {"policy": text}):
                answer = self.launcher().attach(**more)
                self.assertEqual(answer["type"], "refused")
                self.assertLess(len(json.dumps(answer)), 1 << 20)
        self.still_well()

    def test_a_message_may_come_byte_by_byte(self):
        self.lab()
        launcher = self.launcher()
        data = Launcher.frame({"type": "attach", "version": 1, "name": "slow", "policy": None, "command": None,
                               "listeners": ["proxy"], "network": None})
        socket.send_fds(launcher.sock, [data[:1]], [launcher.listen().fileno()])
        for byte in data[1:]:
            launcher.sock.sendall(bytes([byte]))
        self.assertEqual(launcher.read()["sandbox"], "slow")

    def test_silent_connections_keep_nobody_out(self):
        self.lab()
        silent = [self.launcher() for _ in range(200)]
        self.still_well()
        self.assertTrue(silent[0].at_end())

    def test_unfinished_frames_keep_nobody_out(self):
        self.lab()
        victim = self.launcher()
        victim.attach("victim")
        for number in range(8):  # all but the end of the longest frame: nearly all that the gateway holds for everybody
            launcher = self.launcher()
            if number % 2:
                launcher.attach(f"heavy-{number}")
            launcher.sock.sendall(struct.pack(">I", 8 << 20) + b"[" * ((8 << 20) - 2000))
        update = {"type": "update", "serial": 1, "network": {"allowedDomains": ["x" * 60 + ".test"] * 1000 + ["good.test"], "deniedDomains": []}}
        victim.send(update)
        self.assertEqual(victim.read()["type"], "updated")
        self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
        self.still_well()

    def test_a_listener_that_blocks_holds_up_nobody_else(self):
        self.lab(workers=1)
        launcher, victim = self.launcher(), self.launcher()
        launcher.attach("blocking")
        victim.attach("victim")
        flags = fcntl.fcntl(launcher.listeners[0], fcntl.F_GETFL)
        fcntl.fcntl(launcher.listeners[0], fcntl.F_SETFL, flags & ~os.O_NONBLOCK)  # the flag is the gateway's too
        for _ in range(2):
            self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)
            self.assertEqual(victim.connect(self.good.authority)[1].status, 200)

    def test_a_listener_that_blocks_between_look_and_accept_holds_up_nobody_else(self):
        """A process of its own takes the flag away all the time, so that now and then it is gone when it is accepted from
        an empty queue."""
        self.lab(workers=1)
        launcher, victim = self.launcher(), self.launcher()
        launcher.attach("blocking")
        victim.attach("victim")
        number = launcher.listeners[0].fileno()
        clearing = subprocess.Popen([sys.executable, "-c", "import fcntl, os\nwhile True:\n fcntl.fcntl(" + str(number) +
                                     ", fcntl.F_SETFL, os.O_RDWR)"], pass_fds=[number])
        try:
            for _ in range(300):
                launcher.client().close()
                self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
        finally:
            clearing.kill()
            clearing.wait()
        self.assertEqual(victim.connect(self.good.authority)[1].status, 200)

    def test_a_listener_that_no_longer_listens_costs_nothing(self):
        self.lab(workers=1)
        launcher, victim = self.launcher(), self.launcher()
        launcher.attach("gone")
        victim.attach("victim")
        launcher.listeners[0].shutdown(socket.SHUT_RDWR)
        self.gw.wait_for_stderr(lambda line: "listener of gone" in line and "does not listen" in line)
        self.assert_still()
        self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
        launcher.close()
        self.still_well()

    def test_only_tcp_and_unix_listeners_are_taken(self):
        self.lab()
        try:
            listener = socket.socket(socket.AF_VSOCK)
            listener.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
            listener.listen()
        except OSError as error:
            self.skipTest(f"no other kind of stream socket can be had here: {error}")
        self.addCleanup(listener.close)
        answer = self.launcher().attach(descriptors=[listener])
        self.assertEqual((answer["type"], "neither a TCP nor a Unix socket" in answer["message"]), ("refused", True))

    def gets_in(self, launcher):
        try:
            talk, answer = launcher.connect(self.good.authority)
            talk.close()
            return answer.status == 200
        except (Closed, ConnectionError):
            return False

    def test_a_sandbox_has_no_more_than_its_share_of_connections(self):
        self.lab(gateway="max-sandbox-connections = 4")
        launcher, victim = self.launcher(), self.launcher()
        launcher.attach("crowd", descriptors=[launcher.listen(), launcher.listen()])
        victim.attach("victim")
        tunnels = [launcher.connect(self.good.authority)[0] for _ in range(2)]
        idle = [launcher.client(1) for _ in range(2)]  # of the other listener, and idle
        for client in idle:
            self.assert_refused(client.get("http://evil.test/"), 403, "not-allowed")
            launcher.read()
        talk, answer = launcher.connect(self.good.authority)
        self.assertIn("(max-sandbox-connections)", self.assert_refused(answer, 429, "limit")["message"])
        self.assertEqual(answer.get("Retry-After"), "1")
        with launcher.client() as socks:
            self.assertEqual(socks.socks("good.test", self.good.port)[0], 1)
        decision = self.gw.decision("good.test", reason="limit")
        self.assertEqual((decision["sandbox"], decision["verdict"]), ("crowd", "deny"))
        self.assertEqual(launcher.read()["reason"], "limit")  # its user is told
        held = [launcher.client() for _ in range(40)]  # beyond a few more nobody is even told
        for client in held[20:]:
            client.expect_eof()
        self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
        tunnels[0].send("x").expect("x")
        for client in [*tunnels, *idle, *held, talk]:
            client.close()
        deadline = time.monotonic() + PATIENCE_S
        while not self.gets_in(launcher):  # once they are noticed to be gone
            self.assertLess(time.monotonic(), deadline)

    @staticmethod
    def linger(sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 2 * int(PATIENCE_S)))

    def fill_and_linger(self, sock):
        sock.setblocking(False)
        try:
            while True:
                sock.send(bytes(1 << 16))
        except BlockingIOError:
            self.linger(sock)

    @staticmethod
    def flood(talk):
        try:
            while True:
                talk.send(bytes(1 << 16))
                with talk.upstream.changed:
                    talk.upstream.changed.notify_all()
        except OSError:
            pass

    def test_what_does_not_leave_the_machine_is_not_paced(self):
        """A listener is shared, so what the gateway makes of it is seen here."""
        with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
            others = set(file.read().split()) - {"reno"}
        if not others:
            self.skipTest("there is only reno")
        control = lambda sock: sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        self.lab()
        for address, expected in (("127.0.0.1", {"reno"}), ("0.0.0.0", others)):
            with self.subTest(address=address):
                launcher, listener = self.launcher(), socket.create_server((address, 0))
                launcher.listeners.append(listener)
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sorted(others)[0].encode())
                launcher.attach("box" + address.replace(".", "-"), descriptors=[listener])
                self.assertTrue(self.gets_in(launcher))
                self.assertIn(control(listener), expected)

    def test_sockets_that_linger_hold_up_nobody_else(self):
        self.lab(workers=1)
        launcher, victim = self.launcher(), self.launcher()
        listener = launcher.listen()
        self.linger(listener)  # what is accepted inherits it
        launcher.attach("lingering", descriptors=[listener])
        victim.attach("victim")
        self.other.script = self.flood
        tunnel, _ = launcher.connect(self.other.authority)
        with self.other.changed:  # until nobody takes more
            while self.other.changed.wait(1):
                pass
        launcher.sock.close()
        self.gw.close_record()
        self.assertEqual(victim.connect(self.good.authority)[1].status, 200)

    def lingering_connection(self):
        """Whose last close() has to wait, since nobody takes what it has sent."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname())
            self.addCleanup(server.accept()[0].close)
        self.fill_and_linger(client)
        return client

    def test_foreign_sockets_that_linger_do_not_hold_up_the_next_launcher(self):
        self.lab()
        client = self.lingering_connection()
        launcher = self.launcher()
        message = {"type": "attach", "version": 1, "name": "box", "policy": None, "command": None, "listeners": ["proxy"], "network": None}
        launcher.send(message, [client])
        client.close()
        self.assertEqual(launcher.read()["type"], "refused")
        self.still_well()

    def assert_updates(self, launcher, allowed="other.test"):
        launcher.send({"type": "update", "serial": 1, "network": {"allowedDomains": [allowed], "deniedDomains": []}})
        self.assertEqual(launcher.read()["type"], "updated")

    def pass_lingering(self, launcher, flags=0):
        lingering = self.lingering_connection()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", lingering.fileno()))
        launcher.sock.sendmsg([b"x"], [rights], flags)
        lingering.close()

    def test_descriptors_that_nobody_reads_hold_up_nobody(self):
        """They end with the connection that they wait in."""
        self.lab()
        victim, launcher = self.launcher(), self.launcher()
        victim.attach("victim")
        launcher.attach()
        for _ in range(10):  # denials, until nothing more is read from who does not read them
            self.refuse_many(launcher, 400)
        self.pass_lingering(launcher)
        launcher.sock.close()
        self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")
        self.assert_updates(victim)

    def test_urgent_descriptors_hold_up_nobody(self):
        """The kernel throws away what comes out of band and is not read as such, and with it what is passed there."""
        self.lab()
        victim, launcher = self.launcher(), self.launcher()
        victim.attach("victim")
        self.pass_lingering(launcher, socket.MSG_OOB)
        launcher.sock.sendall(b"y")
        self.assert_updates(victim)
        self.still_well()

    def unix_launcher(self, name):
        """Its listener is a Unix socket whose clients may pass descriptors, whatever the gateway has said."""
        launcher, listener = self.launcher(), socket.socket(socket.AF_UNIX)
        listener.bind(self.path(name))
        listener.listen()
        launcher.listeners.append(listener)
        self.assertEqual(launcher.attach(name, [listener])["type"], "attached")
        with socket.socket(socket.AF_UNIX) as client:  # what is answered there was refused descriptors before
            client.settimeout(PATIENCE_S)
            client.connect(listener.getsockname())
            client.sendall(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
            client.recv(1)
        try:
            listener.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 1)
        except OSError:
            self.skipTest("this kernel has no SO_PASSRIGHTS: docs/threat-model.md says what follows")
        return listener

    def test_descriptors_from_clients_of_a_launchers_unix_listener_hold_up_nobody(self):
        self.lab(workers=1)
        victim = self.launcher()
        victim.attach("victim")
        for number, (late, flags) in enumerate(itertools.product((True, False), (0, socket.MSG_OOB))):
            with self.subTest(late=late, flags=flags):
                client, lingering = socket.socket(socket.AF_UNIX), self.lingering_connection()
                self.addCleanup(client.close)
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", lingering.fileno()))
                path = self.unix_launcher(f"unix-{number}").getsockname()
                if late:
                    client.connect(path)
                    client.sendall(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
                    client.recv(1)
                    with self.assertRaises(PermissionError):
                        client.sendmsg([b"GET"], [rights], flags)
                    lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
                    lingering.close()
                else:
                    self.gw.send_signal(signal.SIGSTOP)  # it is to be there before it is accepted
                    client.connect(path)
                    client.sendmsg([b"G"], [rights], flags)
                    lingering.close()
                    self.gw.send_signal(signal.SIGCONT)
                self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
                client.close()
                self.assertEqual(victim.connect(self.good.authority)[1].status, 200)

    def make_lingering_connection(self, listener):
        """What was a listener, and is shared with the gateway, has bytes that nobody takes; so has its last close() to wait."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            after = self.gw.stderr_lines()
            listener.shutdown(socket.SHUT_RDWR)
            self.gw.wait_for_stderr(lambda line: "it does not listen" in line, after)
            unspecified = struct.pack("H14x", socket.AF_UNSPEC)  # takes what the gateway has shut back, too (connect(2))
            self.assertEqual(ctypes.CDLL(None).connect(listener.fileno(), unspecified, len(unspecified)), 0)
            listener.connect_ex(server.getsockname())
            self.addCleanup(server.accept()[0].close)
        self.fill_and_linger(listener)

    def test_a_listener_that_became_a_connection_and_lingers_holds_up_nobody_else(self):
        self.lab(workers=1)
        victim = self.launcher()
        victim.attach("victim")
        launcher = self.launcher()
        listener = launcher.listen()
        launcher.attach("lingering", descriptors=[listener])
        self.make_lingering_connection(listener)
        listener.close()
        launcher.sock.close()
        self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")
        self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
        self.still_well()

    def stuck(self, said, *arguments, **more):
        os.makedirs(self.path("fuse"), exist_ok=True)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lab", "stuck.py")
        holder = subprocess.Popen([sys.executable, script, self.path("fuse"), *arguments], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(holder.communicate)
        if holder.stdout.readline() != f"{said}\n":
            self.skipTest("no FUSE file system can be mounted here: " + holder.communicate()[1].strip().split("\n")[-1])
        return holder

    def stuck_descriptors(self, count):
        return self.stuck("sent", "send", self.control, str(count))

    def hold_lock(self, sock):
        number = sock.fileno()
        return self.stuck("held", "hold", str(number), pass_fds=[number])

    def sockets_of_every_kind(self, launcher):
        path = self.path("held.sock")
        if os.path.exists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        launcher.listeners.append(listener)
        return {"proxy": listener, "transparent": launcher.listen(), "dns-tcp": launcher.listen(), "dns-udp": launcher.datagrams()}

    def launchers_with_every_kind(self):
        """A launcher for each kind of socket, with sockets of all kinds."""
        for kind in ("proxy", "transparent", "dns-tcp", "dns-udp"):
            launcher = self.launcher()
            yield kind, launcher, self.sockets_of_every_kind(launcher)

    def victim_of_one_worker(self):
        self.lab(workers=1)
        victim = self.launcher()
        victim.attach("victim")
        return victim

    def knock(self, kind, address):
        """So that the gateway has something to do there; what comes of it is not waited for."""
        client = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET,
                               socket.SOCK_DGRAM if kind == "dns-udp" else socket.SOCK_STREAM)
        self.addCleanup(client.close)
        client.settimeout(PATIENCE_S)
        client.connect(address)
        client.send(b"\0\7\1\0\0\1" + bytes(6) + encode_name(self.good.name) + b"\0\1\0\1" if kind == "dns-udp" else b"\0")
        return client

    def test_a_lock_that_a_launcher_holds_before_it_attaches_holds_up_nobody_else(self):
        victim = self.victim_of_one_worker()
        for kind, launcher, sockets in self.launchers_with_every_kind():
            with self.subTest(kind=kind):
                holder = self.hold_lock(sockets[kind])
                self.assertEqual(launcher.attach(kind, list(sockets.values()), listeners=list(sockets))["type"], "attached")
                self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
                self.assert_updates(victim, self.good.name)
                launcher.sock.close()
                self.gw.wait_for_record(lambda entry: entry["kind"] == "detach" and entry["sandbox"] == kind)
                self.still_well_again(kind)
                holder.communicate()

    def still_well_again(self, name):
        launcher = self.launcher()
        self.assertEqual(launcher.attach(f"well-{name}")["type"], "attached")
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)

    def test_a_lock_that_a_launcher_holds_later_holds_up_nobody_else(self):
        """Nor does it cost more than the time that it is held."""
        victim = self.victim_of_one_worker()
        for kind, launcher, sockets in self.launchers_with_every_kind():
            with self.subTest(kind=kind):
                launcher.attach(kind, list(sockets.values()), listeners=list(sockets))
                self.knock("dns-udp", sockets["dns-udp"].getsockname()).recv(512)  # by now they have been tuned
                address = sockets[kind].getsockname()  # which needs the lock
                holder = self.hold_lock(sockets[kind])
                client = self.knock(kind, address)
                self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
                self.assert_updates(victim, self.good.name)
                self.still_well_again(kind)
                holder.communicate()
                if kind == "dns-udp":  # what was answered then has gone where its holder's datagram was to go
                    client = self.knock(kind, address)
                with contextlib.suppress(ConnectionResetError):
                    client.recv(512)
                launcher.close()
                self.gw.wait_for_record(lambda entry: entry["kind"] == "detach" and entry["sandbox"] == kind)

    def test_descriptors_whose_close_waits_hold_up_nobody(self):
        self.lab()
        self.stuck_descriptors(3)
        self.gw.wait_for_stderr(lambda line: "was refused" in line and "is not a socket" in line)
        self.still_well()

    def test_many_descriptors_whose_close_waits_hold_up_no_traffic(self):
        self.lab()
        victim = self.launcher()
        victim.attach("victim")
        self.stuck_descriptors(100)
        self.assertEqual(victim.connect(self.good.authority)[1].status, 200)
        self.assert_updates(victim)

    def test_what_comes_while_many_wait_is_left_unread(self):
        self.lab()
        victim, launcher = self.launcher(), self.launcher()
        victim.attach("victim")
        launcher.attach("launcher")
        stuck = self.stuck_descriptors(100)
        self.gw.wait_for_threads(64)
        self.pass_lingering(launcher)
        for _ in range(2):  # the first may be read before that
            self.assert_updates(victim)
        stuck.communicate()
        self.assertTrue(launcher.at_end())  # nobody had asked for it
        self.still_well()

    @unittest.skipUnless(os.path.exists(PROBE), "no module was built beside the tests")
    def test_what_has_ended_while_it_was_left_unread_is_not_read_afterwards(self):
        """Its sandbox is still there then: the worker that has to end it is held by a module."""
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.lab(workers=1, more=f"[filter probe]\nmodule = {PROBE}\nanswer = {fifo}\n[policy holds]\nallow = good.test\n"
                 "filters = probe\n[listen holds]\naddress = 127.0.0.1:0\npolicy = holds\n")
        launchers = victim, newcomer, heaviest, *heavy = [self.launcher() for _ in range(10)]
        for number, launcher in enumerate(launchers):
            launcher.attach(f"box-{number}", policy="main")
        for launcher in (heaviest, *heavy):  # together nearly all that the gateway holds for everybody
            launcher.sock.sendall(struct.pack(">I", 8 << 20) + b"[" * ((8 << 20) - (2000 if launcher is heaviest else 3000)))
        stuck = self.stuck_descriptors(100)
        self.gw.wait_for_threads(64)  # some may have been there before
        self.pass_lingering(heaviest)
        for _ in range(2):  # by the second answer it was looked at
            self.assert_updates(victim)
        asking = self.gw.client(listener="holds")
        asking.request("GET http://good.test/ HTTP/1.1", [("Host", "good.test")])
        self.gw.wait_for_stderr(lambda line: "filter probe: holds its worker" in line)
        newcomer.sock.sendall(struct.pack(">I", 8 << 20) + b"[" * 50000)
        self.gw.wait_for_stderr(lambda line: "the launcher of box-2 " in line and "too much is being sent" in line)
        stuck.communicate()
        next_one = self.launcher()  # comes in when the others are read again
        next_one.sock.sendall(bytes(4))
        self.assertEqual(next_one.read()["type"], "refused")
        os.close(os.open(fifo, os.O_WRONLY))
        self.assertEqual(asking.response().status, 403)
        self.assertEqual(self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")["sandbox"], "box-2")
        self.assertTrue(heaviest.at_end())
        self.assert_updates(victim)

    def refuse_many(self, launcher, count):
        with launcher.client() as client:
            client.send("GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n" * count)
            for _ in range(count):
                self.assertEqual(client.response().status, 403)

    def assert_all_are_counted(self, launcher, count):
        """Each denial is told or counted as missed; returns how many were missed."""
        told = missed = asked = 0
        while told + missed < count + asked:
            told, missed = told + 1, missed + launcher.read()["missed"]
            if told == 1000:  # there is room again: the next one tells what was left out
                self.refuse_many(launcher, 1)
                asked = 1
        self.assertEqual(told + missed, count + asked)
        return missed

    def test_denials_of_one_sandbox_do_not_lose_those_of_another(self):
        """Nor its own: what could not be told while nobody listened is counted."""
        self.lab(workers=1)
        busy, noisy, victim = self.launcher(), self.launcher(), self.launcher()
        for launcher in (busy, noisy, victim):
            launcher.attach(f"box-{launcher.sock.fileno()}")
        names = [f"{chr(0x4e00 + n % 20000)}{n}.test" for n in range(60000)]
        busy.send({"type": "update", "serial": 1, "network": {"allowedDomains": names, "deniedDomains": []}})
        for _ in range(6):
            self.refuse_many(noisy, 1000)
        self.refuse_many(victim, 3)
        for _ in range(3):
            denial = victim.read()
            self.assertEqual((denial["type"], denial["missed"]), ("denial", 0))
        self.assertEqual(busy.read()["type"], "updated")
        self.assert_all_are_counted(noisy, 6000)

    def test_a_launcher_that_does_not_read_costs_a_bounded_amount(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach()
        for _ in range(30):
            self.refuse_many(launcher, 200)
        self.assertGreater(self.assert_all_are_counted(launcher, 6000), 1000)


if __name__ == "__main__":
    main()
