"""Reload as a transaction (area config/reload)."""

import datetime
import grp
import hashlib
import json
import os
import re
import select
import stat
import threading

from lab import LabCase, NotReady, main, reply
from lab.hello import is_alert, recorded
from lab.talk import PATIENCE_S
from lab.upstream import Upstream


class ReloadCase(LabCase):
    def lab(self, **more):
        """One echo server under two names; the first configuration allows a.test, others what they say."""
        self.server = self.upstream()
        self.parts = {"hosts": {"a.test": self.server.address, "b.test": self.server.address}, **more}
        self.gw = self.gateway(self.allowing("a.test"))
        return self.gw

    def allowing(self, *names, **more):
        # The same port again: what a reload keeps must stay bound.
        parts = {**self.parts, **more}
        parts.setdefault("listen", "address = 127.0.0.1:0\npolicy = main")
        return self.config(allow=[f"{name}:{self.server.port}" for name in names], **parts)

    def status(self, name):
        return self.gw.refused_connect(f"{name}:{self.server.port}").status

    def tunnel(self, name):
        return self.gw.tunnel(f"{name}:{self.server.port}")


    def wait_for_status(self, name, status):
        for _ in range(1000):
            if self.status(name) == status:
                return
            select.select([], [], [], 0.01)
        self.fail(f"{name} never became {status}")


class Hup(ReloadCase):
    def test_C08_hup_reloads_and_says_what_changed(self):
        self.lab()
        self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))
        record = self.gw.reload(self.allowing("b.test"))
        self.assertEqual(set(record), {"schema", "ts", "seq", "kind", "generation", "sha256", "result", "added", "removed", "faults"})
        self.assertEqual((self.status("a.test"), self.status("b.test")), (403, 200))
        self.assertIn("b.test", str(record["added"]))
        self.assertIn("a.test", str(record["removed"]))
        again = self.gw.reload(self.allowing("a.test", "b.test"))
        self.assertEqual(again["generation"], record["generation"] + 1)
        self.assertNotEqual(again["sha256"], record["sha256"])
        self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 200))
        self.assertEqual(self.gw.decision("a.test", generation=again["generation"])["verdict"], "allow")

    def test_C08_hup_is_a_reload_without_a_terminal_too(self):
        self.server = self.upstream()
        self.parts = {"hosts": {"a.test": self.server.address}}
        self.gw = self.gateway(self.allowing("a.test"), wrapper=["setsid"])
        self.assertEqual(os.getsid(self.gw.process.pid), self.gw.process.pid)
        for number, names in ((2, ["b.test"]), (3, ["a.test"])):
            self.assertEqual(self.gw.reload(self.allowing(*names))["generation"], number)
            self.gw.wait_for_stderr(lambda line, number=number: f"generation {number} is in force" in line)
        self.assertEqual(self.status("a.test"), 200)

    def test_a_fault_leaves_the_old_one_in_force_and_says_so(self):
        self.lab()
        generation = None
        good = self.allowing("a.test")
        for broken in (good.replace("allow =", "alow ="), "", "[gateway\n", good + "\n[policy main]\nallow = *.com\n",
                       good.replace(f"a.test:{self.server.port}", "*.com"), good + "\nallow = x y z\n",
                       good[:len(good) // 2] + "\x00"):
            record = self.gw.reload(broken)
            with self.subTest(broken=broken[-60:]):
                self.assertTrue(record["faults"])
                self.assertRegex(str(record["faults"][0]), r"gateway\.ini:?\d*")
                generation = generation or record["generation"]
                self.assertEqual(record["generation"], generation)
                self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))
        self.assertRegex(self.gw.stderr(), r"gateway\.ini:\d+: ")
        self.gw.reload(self.allowing("b.test"))
        self.assertEqual((self.status("a.test"), self.status("b.test")), (403, 200))

    def test_C07_an_unreadable_file_leaves_the_old_one_in_force(self):
        self.server = self.upstream()
        self.parts = {"hosts": {"a.test": self.server.address}}
        self.gw = self.gateway(self.allowing("a.test"), user=self.ordinary_user())
        os.chmod(self.gw.config_path, 0)
        self.assertTrue(self.gw.reload()["faults"])
        self.assertEqual(self.status("a.test"), 200)

    def test_a_missing_file_leaves_the_old_one_in_force(self):
        self.lab()
        os.rename(self.gw.config_path, self.gw.config_path + ".away")
        self.assertTrue(self.gw.reload()["faults"])
        self.assertEqual(self.status("a.test"), 200)

    def test_C09_tunnels_that_are_now_denied_are_cut_and_only_those(self):
        self.lab()
        self.gw.reload(self.allowing("a.test", "b.test"))
        goes, stays = self.tunnel("a.test"), self.tunnel("b.test")
        goes.send("x").expect("x")
        stays.send("x").expect("x")
        self.gw.reload(self.allowing("b.test"))
        goes.expect_eof()
        close = self.gw.wait_for_record(lambda entry: entry["kind"] == "close" and entry["host"] == "a.test")
        self.assertEqual(close["cause"], "policy")
        self.assertLess(self.seconds_between(self.gw.records("reload")[-1], close), 1)
        stays.send("y").expect("y")

    @staticmethod
    def seconds_between(first, second):
        times = [datetime.datetime.strptime(entry["ts"], "%Y-%m-%dT%H:%M:%S.%fZ") for entry in (first, second)]
        return abs((times[1] - times[0]).total_seconds())

    def test_reload_tunnels_keep_cuts_nothing(self):
        self.lab(gateway="reload-tunnels = keep")
        tunnel = self.tunnel("a.test").send("x").expect("x")
        self.gw.reload(self.allowing("b.test"))
        tunnel.send("y").expect("y")
        self.assertEqual(self.status("a.test"), 403)

    def test_a_request_on_a_kept_connection_meets_the_new_configuration(self):
        origin = self.origin("a.test")
        self.server, self.parts = origin, {"hosts": [origin]}
        self.gw = self.gateway(self.allowing("a.test"))
        with self.gw.client() as client:
            self.assertEqual(client.get(f"http://{origin.authority}/1").status, 200)
            self.gw.reload(self.allowing("b.test"))
            self.assert_refused(client.get(f"http://{origin.authority}/2"), 403, "not-allowed")

    def test_shorter_limits_count_for_what_is_open(self):
        for limit, cause in (("idle-timeout", "idle"), ("tunnel-lifetime", "lifetime")):
            with self.subTest(limit=limit):
                self.lab()
                tunnel, number = self.tunnel("a.test"), len(self.gw.records("close")) + 1
                self.gw.reload(self.allowing("a.test", gateway=f"{limit} = 100ms"))
                tunnel.expect_eof()
                self.assertEqual(self.gw.close_record(number=number)["cause"], cause)
                self.gw.stop()

    def test_C10_allowed_tunnels_live_through_many_reloads(self):
        self.lab()
        tunnels = [self.tunnel("a.test") for _ in range(100)]
        for number in range(50):
            self.gw.reload(self.allowing("a.test", *(["b.test"] if number % 2 else [])))
            for tunnel in tunnels:
                tunnel.send(f"{number:04}").expect(f"{number:04}")
        data = os.urandom(100_000)
        for tunnel in tunnels[::10]:  # all of them, one after the other, may take longer than a server's patience
            tunnel.send(data)
            self.assertEqual(hashlib.sha256(tunnel.read_exactly(len(data))).digest(), hashlib.sha256(data).digest())

    def test_C11_each_decision_matches_the_generation_it_names(self):
        self.lab()
        stop, wrong = threading.Event(), []

        def ask(name):
            while not stop.is_set():
                try:
                    if self.status(name) not in (200, 403):
                        wrong.append(name)
                except (AssertionError, OSError) as error:
                    wrong.append((name, error))

        threads = [threading.Thread(target=ask, args=(name,)) for name in ("a.test", "b.test")]
        for thread in threads:
            thread.start()
        allowed = {}
        try:
            for number in range(30):
                name = ("a.test", "b.test")[number % 2]
                allowed[self.gw.reload(self.allowing(name) + f"; {number}\n")["generation"]] = name
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        judged = [entry for entry in self.gw.records("decision") if entry["generation"] in allowed]
        self.assertTrue(judged)
        for entry in judged:
            self.assertEqual(entry["verdict"], "allow" if allowed[entry["generation"]] == entry["host"] else "deny", entry)

    def test_C13_listeners_come_and_go_by_reload(self):
        self.lab()
        first = self.gw.address()
        extra = "[listen extra]\naddress = unix:%s\npolicy = main\n" % self.path("extra.sock")
        self.gw.reload(self.allowing("a.test", more=extra))
        self.gw.addresses["extra"] = "unix:" + self.path("extra.sock")
        self.assertEqual(self.gw.refused_connect(f"a.test:{self.server.port}", listener="extra").status, 200)
        self.assertEqual((self.gw.address(), self.status("a.test")), (first, 200))
        self.gw.reload(self.allowing("a.test"))
        self.assertFalse(os.path.exists(self.path("extra.sock")))
        with self.assertRaises(OSError):
            self.gw.client("extra")

    def test_C13_listeners_with_any_port_stay_who_they_are(self):
        self.server = self.upstream()
        self.parts = {"hosts": {"a.test": self.server.address}}
        section = "[listen {0}]\naddress = 127.0.0.1:0\npolicy = {0}\n"
        policies = "".join(f"[policy p{n}]\ndefault = deny\ndocs = p{n}\n" for n in range(4))

        def with_listeners(*names):
            config = self.allowing("a.test", more="".join(map(section.format, names)) + policies)
            return config.replace("admin = none", f"admin = {self.path('admin.sock')}")

        def docs(listener):
            with self.gw.client(listener) as client:
                return json.loads(client.get("http://evil.test/").body)["docs"]

        def reload(*names):
            self.assertEqual(self.gw.reload(with_listeners(*names))["result"], "ok")
            bound = json.loads(self.gw.operate("/status"))["listeners"]
            self.gw.addresses.update(bound)
            self.assertEqual([docs(name) for name in names], list(names))
            return bound

        self.gw = self.gateway(with_listeners("p1", "p2", "p3"))
        tunnel = self.tunnel("a.test")
        first = dict(self.gw.addresses)
        self.assertEqual({**first, **reload("p3", "p2", "p1")}, first)
        second = reload("p0", "p3", "p1")  # p0 may have the place of p2, and nobody else's
        self.assertEqual([second[name] for name in ("main", "p1", "p3")], [first[name] for name in ("main", "p1", "p3")])
        reload("p3")
        for gone in ("p0", "p1"):
            with self.assertRaises(OSError):
                self.gw.client(gone)
        tunnel.send("x").expect("x")

    def test_a_listener_that_cannot_be_bound_is_a_fault_and_changes_nothing(self):
        self.lab()
        taken, descriptors = self.upstream(address="127.0.0.1"), self.gw.descriptors()
        config = self.allowing("b.test", more=f"[listen new]\naddress = unix:{self.path('new.sock')}\npolicy = main\n"
                                              f"[listen taken]\naddress = {taken.literal}\npolicy = main\n")
        line = config[:config.index("[listen taken]")].count("\n") + 1
        record = self.gw.reload(config)
        self.assertEqual((record["result"], record["generation"], len(record["faults"])), ("failed", 1, 1), record)
        self.assertRegex(record["faults"][0], rf"gateway\.ini:{line}: .*{re.escape(taken.literal)}.*in use")
        self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))
        self.assertFalse(os.path.exists(self.path("new.sock")))  # what could be bound is let go of again
        self.gw.wait_for_descriptors(descriptors + 2)

    def test_C13_a_changed_address_is_another_listener(self):
        self.lab(listen=f"address = unix:{self.path('old.sock')}\npolicy = main")
        tunnel = self.tunnel("a.test").send("x").expect("x")
        self.parts["listen"] = f"address = unix:{self.path('new.sock')}\npolicy = main"
        self.gw.reload(self.allowing("a.test", "b.test"))
        self.assertFalse(os.path.exists(self.path("old.sock")))
        self.gw.addresses["main"] = "unix:" + self.path("new.sock")
        self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 200))
        tunnel.send("y").expect("y")

    def test_C13_mode_and_group_of_a_unix_socket_change_where_it_stands(self):
        path = self.path("main.sock")

        def dressed(mode, more=""):
            self.parts["listen"] = f"address = unix:{path}\nmode = {mode}\npolicy = main\n{more}"
            return self.allowing("a.test")

        def seen():
            found = os.stat(path)
            return stat.S_IMODE(found.st_mode), found.st_gid, found.st_ino

        self.lab(listen=f"address = unix:{path}\nmode = 0640\npolicy = main")
        group, inode = seen()[1:]
        tunnel = self.tunnel("a.test").send("x").expect("x")
        self.assertEqual(self.gw.reload(dressed("0666"))["result"], "ok")
        self.assertEqual(seen(), (0o666, group, inode))
        if os.geteuid() == 0:
            daemon = grp.getgrnam("daemon").gr_gid
            self.assertEqual(self.gw.reload(dressed("0600", "group = daemon\n"))["result"], "ok")
            self.assertEqual(seen(), (0o600, daemon, inode))
            self.assertEqual(self.gw.reload(dressed("0666"))["result"], "ok")
            self.assertEqual(seen(), (0o666, os.getegid(), inode))
        # What does not come into force leaves it as it was.
        taken = f"[listen other]\naddress = {self.upstream().literal}\npolicy = main\n"
        self.assertEqual(self.gw.reload(dressed("0600", taken))["result"], "failed")
        self.assertEqual(seen(), (0o666, group, inode))
        self.assertEqual(self.status("a.test"), 200)
        tunnel.send("y").expect("y")

    def test_C13_what_a_reload_cannot_change_is_said_by_its_key(self):
        self.lab()
        config = self.allowing("b.test")
        for old, new, key in (("workers = 2", "workers = 3", "workers"), ("audit.jsonl", "other.jsonl", "audit-log"),
                              ("admin = none", f"admin = {self.path('admin.sock')}", "admin"),
                              ("control = none", f"control = {self.path('control.sock')}", "control")):
            changed = config.replace(old, new)
            line = [number for number, text in enumerate(changed.split("\n"), 1) if text.startswith(key + " =")][0]
            record = self.gw.reload(changed)
            with self.subTest(key=key):
                self.assertEqual((record["result"], record["faults"]),
                                 ("failed", [f"{self.gw.config_path}:{line}: {key} cannot be changed by a reload; restart the gateway"]))
                self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))

    def test_unchanged_content_makes_no_new_generation(self):
        self.lab()
        first = self.gw.reload(self.allowing("a.test", "b.test"))
        again = self.gw.reload()
        self.assertEqual((again["generation"], again["sha256"]), (first["generation"], first["sha256"]))
        second = self.gw.reload(self.allowing("a.test"))
        self.assertEqual(second["generation"], first["generation"] + 1)


class Unfinished(ReloadCase):
    """Requests and tunnels that a reload finds half-way."""

    def second_try(self, after):
        """The kept connection to 127.0.0.2 dies before it answers and the name has 127.0.0.3 too; meanwhile the
        configuration became what `after` adds. Returns the second answer's status and the second server."""
        held = threading.Event()

        def answer_once(talk):
            talk.incoming()
            talk.send(reply(body="first"))
            talk.incoming()
            held.wait(PATIENCE_S)

        first = self._own(Upstream("a.test", "127.0.0.2", answer_once))
        other = self._own(Upstream("a.test", "127.0.0.3", lambda talk: (talk.incoming(), talk.send(reply(body="other"))), port=first.port))
        self.server, self.parts = first, {"hosts": {"a.test": ["127.0.0.2", "127.0.0.3"]}, "workers": 1}
        self.gw = self.gateway(self.allowing("a.test", policy="deny-addresses = 127.0.0.77"))
        url = f"http://a.test:{first.port}/"
        client = self.gw.client()
        self.assertEqual(client.get(url).body, b"first")
        client.request(f"GET {url} HTTP/1.1")
        first.wait(lambda: first.received.count(b"\r\n\r\n") == 2, "the second request")
        self.gw.reload(self.allowing("a.test", policy=after))
        first.close_listener()
        held.set()
        return client.response(), other

    def test_a_second_try_dials_what_is_approved_now(self):
        answer, other = self.second_try("deny-addresses = 127.0.0.3")
        self.assert_refused(answer, 502, "connect-refused")
        self.assertEqual(other.connections, 0)

    def test_a_second_try_goes_on_where_a_reload_changed_nothing_for_it(self):
        answer, other = self.second_try("deny-addresses = 127.0.0.78")
        self.assertEqual((answer.status, answer.body, other.connections), (200, b"other", 1))

    def test_what_went_by_unread_is_cut_when_server_names_begin_to_matter(self):
        self.lab(policy="sni = off")
        said, silent, plain = self.tunnel("a.test"), self.tunnel("a.test"), self.tunnel("a.test")
        other = self.tunnel("a.test")
        said.send(recorded("evil.test")).read_exactly(5)
        plain.send("SSH-2.0-x\r\n").expect("SSH-2.0-x\r\n")
        self.gw.reload(self.allowing("a.test", policy="sni = match"))
        for unread in (said, plain):
            unread.read_all()
        for number in (1, 2):
            self.assertEqual(self.gw.close_record(number=number)["cause"], "policy")
        silent.send(recorded("evil.test"))  # nothing had gone by: it is read as if it were new
        self.assertTrue(is_alert(silent.read_all()))
        good = recorded("a.test")
        other.send(good).expect(good)

    def test_a_hello_that_is_waited_for_goes_on_when_names_no_longer_matter(self):
        self.lab(policy="sni = match")
        whole = recorded("evil.test")
        tunnel = self.tunnel("a.test").send(whole[:40])
        self.gw.decision("a.test")
        self.gw.reload(self.allowing("a.test", policy="sni = off"))
        tunnel.send(whole[40:]).expect(whole)

    def test_plain_bytes_are_cut_when_a_rule_wants_tls(self):
        self.lab()
        plain = self.tunnel("a.test").send("SSH-2.0-x\r\n").expect("SSH-2.0-x\r\n")
        stays = self.tunnel("a.test")
        hello = recorded("a.test")
        stays.send(hello).expect(hello)
        self.gw.reload(self.allowing("a.test").replace(f"allow = a.test:{self.server.port}", f"allow = a.test:{self.server.port} sni=match"))
        plain.expect_eof()
        self.assertEqual(self.gw.close_record()["cause"], "policy")
        stays.send("x").expect("x")


class Files(ReloadCase):
    def test_C05_rename_over_is_noticed_every_time(self):
        self.lab()
        for number in range(10):
            name, other = ("b.test", "a.test") if number % 2 == 0 else ("a.test", "b.test")
            self.gw.write_config(self.allowing(name))
            self.wait_for_status(name, 200)
            self.assertEqual(self.status(other), 403)
        self.gw.wait_for_record(lambda entry: entry["kind"] == "reload", number=10)
        self.assertEqual([(entry["generation"], entry["result"]) for entry in self.gw.records("reload")],
                         [(generation, "ok") for generation in range(2, 12)])

    def test_editing_in_place_and_included_files_are_noticed(self):
        self.lab()
        self.write("conf.d/extra.ini", "[policy main]\n")
        self.write("lists/names.txt", "# nothing yet\n")
        main_text = self.allowing("a.test", policy="allow-file = lists/names.txt")
        self.gw.write_config(main_text)
        with open(self.gw.config_path, "r+", encoding="utf-8") as file:
            file.seek(0, os.SEEK_END)
            file.write("; edited in place\n")
        self.wait_for_status("a.test", 200)
        # A list file counts as well; it is edited until that was seen once the reload above is through.
        self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and not entry["faults"])
        self.write("lists/names.txt", f"b.test:{self.server.port}\n")
        self.wait_for_status("b.test", 200)

    def test_C04_a_swapped_symlink_chain_is_noticed(self):
        self.lab()
        os.makedirs(self.path("v0"))
        os.symlink("v0", self.path("data"))
        os.rename(self.gw.config_path, self.path("v0/gateway.ini"))
        os.symlink("data/gateway.ini", self.gw.config_path)
        for number in range(1, 6):
            name = ("b.test", "a.test")[number % 2 == 0]
            self.write(f"v{number}/gateway.ini", self.allowing(name))
            os.symlink(f"v{number}", self.path("data.new"))
            os.replace(self.path("data.new"), self.path("data"))
            self.wait_for_status(name, 200)


    def swap(self, name, text):
        """As the kubelet does it: NAME -> ..data/NAME, ..data -> a directory of its own for each version."""
        self.versions = getattr(self, "versions", 0) + 1
        self.write(f"maps/v{self.versions}/{name}", text)
        os.symlink(f"v{self.versions}", self.path("maps/..new"))
        os.replace(self.path("maps/..new"), self.path("maps/..data"))
        if not os.path.lexists(self.path(name)):
            os.symlink(f"maps/..data/{name}", self.path(name))

    def in_place(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_every_file_that_belongs_to_it_is_watched_however_it_changes(self):
        self.server = self.upstream()
        self.parts = {"hosts": {"a.test": self.server.address, "b.test": self.server.address},
                      "policy": "allow-file = allow.txt\ndeny-file = deny.txt",
                      "gateway": "include = parts/*.ini"}
        a, b = f"a.test:{self.server.port}\n", f"b.test:{self.server.port}\n"
        for change in (self.write, self.in_place, self.swap):
            with self.subTest(change=change.__name__):
                for name in ("allow.txt", "deny.txt"):
                    if os.path.lexists(self.path(name)):
                        os.unlink(self.path(name))
                change("allow.txt", a)
                change = self.write if change == self.swap else change
                self.write("deny.txt", "nothing.test\n")
                self.gw = self.gateway(self.allowing())
                self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))
                (self.swap if os.path.islink(self.path("allow.txt")) else change)("allow.txt", a + b)
                self.wait_for_status("b.test", 200)
                change("deny.txt", b)
                self.wait_for_status("b.test", 403)
                self.write("parts/more.ini", f"[policy more]\nallow = {a}")  # a file that was not there yet
                self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and "more" in str(entry["added"]))
                self.assertEqual(self.status("a.test"), 200)
                os.unlink(self.path("parts/more.ini"))
                self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and "more" in str(entry["removed"]))
                self.gw.stop()
                os.unlink(self.gw.audit_path)

    def test_a_match_of_a_pattern_is_noticed_in_whatever_directory_it_appears(self):
        self.lab(gateway="include = teams/*/conf.d/*.ini")
        steps = (("teams/one/conf.d/a.ini", "p1"), ("teams/one/conf.d/b.ini", "p2"), ("teams/two/conf.d/a.ini", "p3"))
        for number, (path, policy) in enumerate(steps, 1):  # where nothing was at all, beside it, in a new directory
            self.write(path, f"[policy {policy}]\nallow = a.test\n")
            record = self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and policy in str(entry["added"]))
            self.assertEqual((record["result"], record["generation"]), ("ok", number + 1))
        os.makedirs(self.path("elsewhere/conf.d"))
        self.write("elsewhere/conf.d/a.ini", "[policy p4]\nallow = a.test\n")
        os.symlink("../elsewhere", self.path("teams/three"))
        self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and "p4" in str(entry["added"]))
        os.rename(self.path("teams/one"), self.path("gone"))
        self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and "p1" in str(entry["removed"]))

    def test_a_token_file_is_watched(self):
        good = self.origin("good.test")
        token = self.write("client.token", "first\n")
        gw = self.gateway(allow=[good.authority], hosts=[good], listen="address = 127.0.0.1:0",
                          more=f"[client c]\npolicy = main\ntoken-file = {token}\n")
        first, second = [("Proxy-Authorization", "Bearer first")], [("Proxy-Authorization", "Bearer second")]
        url = f"http://{good.authority}/"
        self.assertEqual((gw.get(url, first).status, gw.get(url, second).status), (200, 407))
        self.write("client.token", "second\n")
        reload = gw.wait_for_record(lambda entry: entry["kind"] == "reload")
        self.assertEqual((reload["result"], reload["added"], reload["removed"]), ("ok", [], []))
        self.assertEqual((gw.get(url, first).status, gw.get(url, second).status), (407, 200))
        self.assertNotIn("second", str(gw.records()) + gw.stderr())

    def test_half_of_a_file_changes_nothing_and_the_rest_is_noticed(self):
        self.lab()
        whole = self.allowing("b.test")
        for number, end in enumerate((0, len(whole) // 2, whole.index("[policy main]") + 5), 1):
            with open(self.gw.config_path, "w", encoding="utf-8") as file:
                file.write(whole[:end])
                file.flush()  # and stays open, as if the writer were slow
                failed = self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and entry["faults"], number)
                self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))
        self.assertEqual((failed["result"], failed["generation"]), ("failed", 1))
        with open(self.gw.config_path, "w", encoding="utf-8") as file:
            file.write(whole)
        self.wait_for_status("b.test", 200)
        self.assertEqual(self.status("a.test"), 403)
        self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and entry["generation"] == 2)

    def test_a_list_that_disappears_or_is_emptied_is_a_fault_and_not_an_empty_list(self):
        self.write("deny.txt", "b.test\n")
        self.lab(policy="deny-file = deny.txt")
        self.gw.reload(self.allowing("a.test", "b.test"))
        self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))
        self.in_place("deny.txt", "")
        record = self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and entry["faults"])
        self.assertRegex(record["faults"][0], r"deny\.txt")
        os.unlink(self.path("deny.txt"))
        record = self.gw.reload()
        self.assertRegex(record["faults"][0], r"gateway\.ini:\d+: .*deny\.txt: No such file")
        self.assertEqual((self.status("a.test"), self.status("b.test")), (200, 403))
        self.write("deny.txt", "a.test\n")
        self.wait_for_status("b.test", 200)
        self.assertEqual(self.status("a.test"), 403)


class Start(LabCase):
    def test_C02_a_configuration_that_is_none_is_no_start(self):
        directory = self.path("a-directory")
        os.makedirs(directory)
        os.mkfifo(self.path("fifo.ini"))
        for path in (self.path("missing.ini"), self.write("empty.ini", ""), directory, "/dev/null", self.path("fifo.ini")):
            with self.subTest(path=path):
                out, err = self.tool("run", "-c", path, status=78)
                self.assertIn(os.path.basename(path), out + err)

    def test_every_fault_has_its_line(self):
        config = self.config(allow=["good.test"])
        cases = {"[gateway]\nworkres = 2\n": (2, "workers"), "[gatway]\n": (1, "gateway"), "[gateway]\nworkers = two\n": (2, "workers"),
                 "[gateway]\nworkers = 2\nworkers = 2\n": (3, "workers"), "[gateway]\nidle-timeout =\n": (2, "idle-timeout"),
                 "[gateway]\nworkers = " + "1" * 5000 + "\n": (2, ""), "[listen x]\naddress = 127.0.0.1\npolicy = p\n[policy p]\n": (2, "address"),
                 "[listen x]\naddress = 127.0.0.1:0\npolicy = nowhere\n": (3, "nowhere"), "[policy p]\ninherit = p\n": (2, "p"),
                 "[gateway]\ninclude = nowhere.ini\n": (2, "nowhere.ini"), "[policy p]\nallow = *.com\n": (2, r"\*\.com"),
                 "[policy p]\nallow-file = nowhere.txt\n": (2, "nowhere.txt"), "key = value\n": (1, ""), "[gateway]\nwords\n": (2, ""),
                 "[client c]\npolicy = p\ntoken-sha256 = abc\n[policy p]\n": (3, "token-sha256"),
                 "[listen x]\naddress = unix:relative\npolicy = p\nmode = 9\n[policy p]\n": (4, "mode"),
                 "[policy p]\nallow = x.test metod=GET\n": (2, "method"), "[gateway]\nheader-timeout = 10x\n": (2, "header-timeout"),
                 "[policy p]\ndeny-addresses = 300.0.0.0/8\n": (2, "300"), "[policy p]\n[policy p]\n": (2, "p"),
                 "[upstream corp]\naddress = 127.0.0.1:3128\n": (2, "address")}
        for text, (line, word) in cases.items():
            with self.subTest(text=text[:80]):
                self.assertRegex(self.check(text, status=78), rf"(?m)checked\.ini:{line}: .*{word}")
        self.assertEqual(re.findall(r"(?m):(\d+): ", self.check("[gateway]\nworkres = 2\nx = 1\n[policy p]\nallow = *.com\n", status=78)),
                         ["2", "3", "5"])
        self.check(config)

    def test_a_faulty_configuration_ends_run_with_the_same_words(self):
        with self.assertRaises(NotReady) as ended:
            self.gateway("[gateway]\nworkres = 2\n")
        self.assertEqual(ended.exception.status, 78)
        self.assertRegex(ended.exception.stderr, r"gateway\.ini:2: .*workers")


if __name__ == "__main__":
    main()
