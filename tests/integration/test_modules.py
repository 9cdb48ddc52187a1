"""Filters in live traffic: the built-in ones, and a loaded module that does what modules should not."""

import json
import os
import shutil
import subprocess
import unittest

from lab import LabCase, main

TOOLS = os.environ.get("SRT_TOOLS_DIR", "")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class FilterCase(LabCase):
    def filtered(self, *sections, order=None, **parts):
        """A gateway whose policy asks these [filter] sections (`name`, text) in this order."""
        more = "".join(f"[filter {name}]\n{text}\n" for name, text in sections)
        policy = parts.pop("policy", "") + f"\nfilters = {', '.join(order or [name for name, _ in sections])}\n"
        return self.gateway(policy=policy, more=more + parts.pop("more", ""), **parts)

    def probe(self, answer, name="probe", timeout="5s"):
        return name, f"module = {os.path.realpath(os.path.join(TOOLS, 'module_probe.so'))}\nanswer = {answer}\ntimeout = {timeout}"

    def assert_filtered(self, gw, response, filter_name, why, reason="filter"):
        """403 by that filter, in the body and in the record."""
        body = self.assert_refused(response, 403, reason)
        self.assertIsNone(body["rule"])
        self.assertIn(why, body["message"])
        self.assertIn(f"filter {filter_name} ", body["message"])
        record = gw.decision(reason=reason, id=body["request_id"])
        self.assertEqual((record["verdict"], record["filter"], record["message"], record["rule"], record["mode"]),
                         ("deny", filter_name, body["message"], None, "enforce"))
        self.assertEqual((response.get("X-Proxy-Error"), body["error"]),
                         ("blocked-by-allowlist", "blocked") if reason == "filter" else (None, "failed"))
        return record

    def assert_no_verdict(self, gw, response, filter_name, why):
        """Denied as well, and not for what was asked."""
        return self.assert_filtered(gw, response, filter_name, why, reason="module-error")


class BuiltIn(FilterCase):
    def test_http_guard_on_visible_requests_and_tunnels(self):
        good = self.origin("good.test")
        gw = self.filtered(("guard", "module = http-guard\nmethod = GET, POST\npath = /pub/*\ncontent-type = text/*\nmax-body = 10"),
                           allow=[f"good.test:{good.port}"], hosts=[good])
        base = f"http://good.test:{good.port}"
        self.assertEqual(gw.get(f"{base}/pub/x?q=1").status, 200)
        self.assert_filtered(gw, gw.get(f"{base}/private?x=/pub/x"), "guard", "the path is not allowed")
        self.assert_filtered(gw, gw.refused_connect(f"good.test:{good.port}"), "guard", "seen in clear")
        self.assertEqual(gw.socks_code("good.test", good.port), 2)
        client = gw.client()  # one connection: a refusal leaves the next request alone
        host = [("Host", f"good.test:{good.port}")]
        client.request(f"PUT {base}/pub/x HTTP/1.1", host, b"hello")
        self.assert_filtered(gw, client.response(), "guard", "the method is not allowed")
        client.request(f"POST {base}/pub/x HTTP/1.1", host + [("Content-Type", "text/plain")], b"01234567890")
        self.assert_filtered(gw, client.response(), "guard", "the body has 11 bytes, 10 are allowed")
        client.request(f"POST {base}/pub/x HTTP/1.1", host + [("Content-Type", "image/png")], b"0123456789")
        self.assert_filtered(gw, client.response(), "guard", "content type")
        client.request(f"POST {base}/pub/x HTTP/1.1", host + [("Content-Type", "text/plain")], b"0123456789")
        self.assertEqual(client.response().status, 200)
        self.assertEqual([request.method for request in good.requests], ["GET", "POST"])

    def test_header_edit_changes_what_the_origin_sees(self):
        good = self.origin("good.test")
        gw = self.filtered(("mark", "module = header-edit\nset = X-Team: build\nset-secret = Authorization: Bearer s3cret\nremove = Cookie"),
                           ("more", "module = header-edit\nset = x-team: ops"),
                           ("sees", "module = http-guard\nheader = X-Team: ops\ndeny-header = Cookie"),
                           allow=[f"good.test:{good.port}"], hosts=[good])
        client = gw.client()
        for _ in range(2):
            response = client.get(f"http://good.test:{good.port}/", [("Cookie", "a=b"), ("X-TEAM", "mine"), ("X-Other", "stays"),
                                                                     ("cookie", "c=d")])
            self.assertEqual(response.status, 200)
        for request in good.requests:
            self.assertEqual((request.all("X-Team"), request.all("Authorization"), request.all("Cookie"), request.get("X-Other")),
                             (["ops"], ["Bearer s3cret"], [], "stays"))
            self.assertEqual(request.get("Host"), f"good.test:{good.port}")
        self.assertNotIn("s3cret", json.dumps(gw.records()))

    def test_schedule_quota_and_one_denial_is_final(self):
        good = self.origin("good.test")
        gw = self.filtered(("open", "module = schedule\nclosed = 1971-01-01"), ("few", "module = quota\nrequests = 2/d\nper = policy"),
                           ("shut", "module = schedule\ndates = 1971-01-01"), order=["open", "few"],
                           allow=[f"good.test:{good.port}"], hosts=[good],
                           more=f"[policy closed]\nallow = good.test:{good.port}\nfilters = shut, few\n"
                                "[listen closed]\naddress = 127.0.0.1:0\npolicy = closed\n")
        url = f"http://good.test:{good.port}/"
        for _ in range(3):
            self.assert_filtered(gw, gw.get(url, listener="closed"), "shut", "it is not allowed at this time")
        self.assertEqual([gw.get(url, listener="main").status for _ in range(2)], [200, 200])
        self.assert_filtered(gw, gw.get(url, listener="main"), "few", "the quota of 2/d requests is used up until")
        self.assertEqual(len(good.requests), 2)

    def test_quota_counts_the_bytes_of_a_tunnel(self):
        echo = self.upstream(name="good.test")
        gw = self.filtered(("few", "module = quota\nbytes = 10/d\nper = policy"), allow=[f"good.test:{echo.port}"], hosts=[echo])
        tunnel = gw.tunnel(f"good.test:{echo.port}")
        tunnel.send("hello").expect("hello")
        tunnel.close()
        gw.close_record()
        self.assert_filtered(gw, gw.refused_connect(f"good.test:{echo.port}"), "few", "the quota of 10/d bytes")

    def test_block_list_is_reloaded_like_configuration(self):
        good, bad = self.origin("good.test"), self.origin("www.bad.test")
        path = self.write("bad.txt", "bad.test\n")
        names = self.name_server({})
        gw = self.filtered(("listed", f"module = block-list\nfile = {path}"), allow=["*.bad.test:1-65535", f"good.test:{good.port}"],
                           hosts=[good, bad], names=names)
        self.assertEqual(gw.get(f"http://good.test:{good.port}/").status, 200)
        self.assert_filtered(gw, gw.get(f"http://www.bad.test:{bad.port}/"), "listed", "its name is on a block list")
        self.assert_filtered(gw, gw.refused_connect("nowhere.bad.test:443"), "listed", "its name is on a block list")
        self.assertEqual(names.questions, [])  # what a filter denies is not resolved
        self.write("bad.txt", "good.test\n")
        gw.wait_for_record(lambda entry: entry["kind"] == "reload" and entry["result"] == "ok")
        self.assertEqual(gw.get(f"http://www.bad.test:{bad.port}/").status, 200)
        self.assert_filtered(gw, gw.get(f"http://good.test:{good.port}/"), "listed", "its name is on a block list")

    def test_report_mode_is_the_chains(self):
        good = self.origin("good.test")
        gw = self.filtered(("shut", "module = schedule\ndates = 1971-01-01"), ("mark", "module = header-edit\nset = X-Mark: 1"),
                           allow=[f"good.test:{good.port}"], hosts=[good], policy="mode = report")
        self.assertEqual(gw.get(f"http://good.test:{good.port}/").status, 200)
        record = gw.decision("good.test")
        self.assertEqual((record["verdict"], record["mode"], record["would"], record["reason"], record["filter"]),
                         ("allow", "report", "deny", None, "shut"))
        self.assertIn("it is not allowed at this time", record["message"])
        self.assertEqual(good.requests[0].get("X-Mark"), "1")

    def test_only_the_policys_own_filters_are_asked_after_its_rules(self):
        good = self.origin("good.test")
        gw = self.filtered(("few", "module = quota\nrequests = 1/d\nper = policy"), allow=[f"good.test:{good.port}"], hosts=[good],
                           more=f"[policy free]\nallow = good.test:{good.port}\nallow-addresses = 127.0.0.0/8\n[listen free]\naddress = 127.0.0.1:0\npolicy = free\n")
        for _ in range(3):
            self.assert_refused(gw.get("http://evil.test/", listener="main"), 403, "not-allowed")
            self.assertEqual(gw.get(f"http://good.test:{good.port}/", listener="free").status, 200)
        self.assertEqual(gw.get(f"http://good.test:{good.port}/", listener="main").status, 200)

    def test_explain_and_replay_say_that_filters_are_not_asked(self):
        gw = self.filtered(("shut", "module = schedule\ndates = 1971-01-01"), allow=["good.test"])
        self.assert_refused(gw.refused_connect("good.test:443"), 403, "filter")
        gw.decision("good.test")
        out, _ = self.tool("explain", "-c", gw.config_path, "--json", "good.test:443")
        said = json.loads(out)
        self.assertEqual((said["verdict"], said["filter"], said["message"]), ("allow", None, "filters not asked: shut"))
        _, said = self.tool("replay", "-c", gw.config_path, gw.audit_path)
        self.assertIn("0 judged, 0 changed, 1 passed over", said)


@unittest.skipUnless(os.path.exists(os.path.join(TOOLS, "module_probe.so")), "no module was built beside the tests")
class Loaded(FilterCase):
    def setUp(self):
        super().setUp()
        self.good = self.origin("good.test")
        self.url = f"http://good.test:{self.good.port}/"

    def with_probe(self, answer, **options):
        return self.filtered(self.probe(answer, **options), allow=[f"good.test:{self.good.port}"], hosts=[self.good])

    def test_a_plain_yes_and_no(self):
        gw = self.with_probe("pass")
        self.assertEqual(gw.get(self.url).status, 200)
        gw.wait_for_stderr(lambda line: "filter probe: ended up=0 down=" in line)
        gw.stop()
        for word in ("entered", "left", "destroyed"):
            self.assertIn(f"filter probe: {word}", gw.stderr())
        gw = self.with_probe("deny")
        self.assert_filtered(gw, gw.get(self.url), "probe", "it says no")
        gw.stop()
        self.assert_untouched_since(1)

    def assert_untouched_since(self, count):
        self.assertEqual(len(self.good.requests), count)

    def test_P22_garbage_is_a_denial(self):
        gw = self.with_probe("garbage")
        self.assert_no_verdict(gw, gw.get(self.url), "probe", "????")
        self.assert_untouched_since(0)

    def test_P22_a_call_that_blocks_is_no_verdict_and_holds_up_its_worker_only(self):
        free = (f"[policy free]\nallow = good.test:{self.good.port}\nallow-addresses = 127.0.0.0/8\n"
                "[listen free]\naddress = 127.0.0.1:0\npolicy = free\n")
        gw = self.filtered(self.probe("block", timeout="100ms"), allow=[f"good.test:{self.good.port}"], hosts=[self.good], more=free)
        with gw.client() as client:
            client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
            self.assertEqual(gw.get(self.url, listener="free").status, 200)
            self.assert_no_verdict(gw, client.response(), "probe", "it blocked its worker for")
        self.assert_untouched_since(1)

    def test_an_answer_from_another_thread_or_before_the_call_returns(self):
        for answer in ("thread", "early"):
            gw = self.with_probe(answer)
            clients = [gw.client() for _ in range(20)]
            for client in clients:
                client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
            self.assertEqual({client.response().status for client in clients}, {200})
            tunnel = gw.tunnel(f"good.test:{self.good.port}")
            tunnel.close()
            gw.stop()

    def test_the_first_answer_counts(self):
        gw = self.with_probe("twice")
        for _ in range(10):
            self.assert_filtered(gw, gw.get(self.url), "probe", "the first word counts")
        self.assert_untouched_since(0)

    def test_an_answer_that_is_none_is_a_denial(self):
        gw = self.with_probe("odd")
        self.assert_no_verdict(gw, gw.get(self.url), "probe", "not again??")

    def test_no_verdict_is_a_yes_only_where_it_is_written(self):
        for answer, why in (("garbage", "????"), ("odd", "not again??"), ("never", "it did not answer within 50 ms")):
            gw = self.with_probe(answer, timeout="50ms\nfail = open")
            self.assertEqual(gw.get(self.url).status, 200)
            record = gw.decision("good.test")
            self.assertEqual((record["verdict"], record["reason"], record["would"], record["filter"]), ("allow", None, None, "probe"))
            self.assertIn("filter probe of policy main gave no verdict and has fail = open: ", record["message"])
            self.assertIn(why, record["message"])
            gw.stop()
            os.remove(gw.audit_path)
        gw = self.with_probe("deny", timeout="5s\nfail = open")  # a no is a verdict
        self.assert_filtered(gw, gw.get(self.url), "probe", "it says no")

    def test_never_and_late_and_to_others_is_a_denial_in_time(self):
        for answer in ("never", "late", "foreign"):
            gw = self.with_probe(answer, timeout="100ms")
            client = gw.client()  # the same connection again: the late answer must not find the next request
            for _ in range(3):
                client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
                self.assert_no_verdict(gw, client.response(), "probe", "it did not answer within 100 ms")
            gw.wait_for_stderr(lambda line: "filter probe: abandoned" in line)
            gw.stop()
        self.assert_untouched_since(0)

    def test_a_client_that_leaves_frees_its_place(self):
        gw = self.with_probe("never", timeout="10m")
        client = gw.client()
        client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
        client.expect_silence()
        client.reset()
        gw.wait_for_stderr(lambda line: "filter probe: abandoned" in line)
        self.assertIn("the client left before it answered", gw.decision("good.test")["message"])
        with gw.client() as client:
            client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
            client.finish()
        gw.decision("good.test", number=2, filter="probe")
        self.assertEqual(gw.stderr().count("filter probe: abandoned"), 2)

    def test_waiting_outlives_a_reload_and_ends_with_the_gateway(self):
        gw = self.with_probe("never", timeout="10m")
        client = gw.client()
        client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
        client.expect_silence()
        with open(gw.config_path, encoding="utf-8") as file:
            config = file.read()
        self.assertEqual(gw.reload(config.replace("answer = never", "answer = pass"))["result"], "ok")
        self.assertEqual(gw.get(self.url).status, 200)  # a new request asks the new one
        self.assertNotIn("destroyed", gw.stderr())
        gw.stop()
        self.assertEqual(gw.stderr().count("filter probe: abandoned"), 1)
        self.assertEqual(gw.stderr().count("filter probe: destroyed"), 2)

    def test_edits_stay_within_their_bounds(self):
        gw = self.with_probe("edit")
        client = gw.client()
        client.request(f"POST {self.url} HTTP/1.1", [("Host", "good.test")], b"hello")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(self.good.requests[0].get("X-Probe"), "1")
        self.assertEqual(self.good.requests[0].body, b"hello")

    def test_a_module_that_says_no_to_a_worker_fails_the_reload(self):
        gw = self.with_probe("pass")
        with open(gw.config_path, encoding="utf-8") as file:
            config = file.read()
        record = gw.reload(config.replace("answer = pass", "answer = no-enter"))
        self.assertEqual(record["result"], "failed")
        self.assertIn("[filter probe]: it cannot run in worker", json.dumps(record["faults"]))
        self.assertEqual(gw.get(self.url).status, 200)

    def check_module(self, path, text="answer = pass"):
        return self.check(self.config(more=f"[filter f]\nmodule = {path}\n{text}\n"), status=78)

    def test_what_is_not_loaded(self):
        for module, why in (("wrong_abi", "its ABI is 2, the gateway's 1"), ("wrong_size", "bytes, the gateway's"),
                            ("no_symbol", "exports no srt_filter_module")):
            said = self.check_module(os.path.realpath(os.path.join(TOOLS, f"module_{module}.so")))
            self.assertRegex(said, r"checked\.ini:\d+: \[filter f\]: ")
            self.assertIn(why, said)
        probe = os.path.realpath(os.path.join(TOOLS, "module_probe.so"))
        self.assertRegex(self.check_module(probe, "anser = pass"), r"checked\.ini:\d+: \[filter f\] anser: only answer is known")
        copy = shutil.copy(probe, self.path("probe.so"))
        os.chmod(copy, 0o666)
        self.assertIn("is writable by others", self.check_module(copy))
        os.chmod(copy, 0o755)
        os.chmod(self.directory, 0o777)
        self.assertIn("is writable by others", self.check_module(copy))
        os.chmod(self.directory, 0o755)
        self.assertIn("No such file", self.check_module(self.path("none.so")))


    def test_every_fault_of_a_section_is_told_in_one_go(self):
        """A module refuses one key at a time; whoever mends a file wants to know of all."""
        probe = os.path.realpath(os.path.join(TOOLS, "module_probe.so"))
        for module, text, faults in (
                ("http-guard", "methds = GET\ntimeot = 2s\nopaque = maybe\nmax-body = 1\nmax-body = 2",
                 ["1: .*did you mean method", "2: .*did you mean timeout", "3: .*opaque: ", "5: .*it stands on line"]),
                ("block-list", "fil = bad.txt\nsubdomains = perhaps", ["1: .*did you mean file", "2: .*subdomains: "]),
                ("schedule", "day = mon\nhours = late\ndates = 2026-13-01", ["1: .*did you mean days", "2: .*hours: ", "3: .*dates: "]),
                ("unix:" + self.path("m.sock"), "queue = x\nfial = open\nbreaker-pause = y",
                 ["1: .*queue: ", "2: .*did you mean fail", "3: .*breaker-pause: "]),
                (probe, "anser = pass\nansser = pass", ["1: .*only answer is known", "2: .*only answer is known"])):
            with self.subTest(module=module):
                text_of = f"[filter f]\nmodule = {module}\n{text}\n"
                said = self.check(text_of, status=78).splitlines()
                self.assertEqual(len(said), len(faults), said)
                for line, fault in zip(said, faults):
                    number, rest = fault.split(": ", 1)
                    self.assertRegex(line, rf"checked\.ini:{int(number) + 2}: \[filter f\] {rest}")


class Development(FilterCase):
    """What a module of somebody else's is built with: installed header, pkg-config file, CMake package."""

    def install(self):
        self.run_tool("cmake", "--install", os.path.dirname(TOOLS), "--prefix", self.path("usr"), "--component", "devel")
        found = [os.path.join(folder, "srt-filter.pc") for folder, _, files in os.walk(self.path("usr")) if "srt-filter.pc" in files]
        self.assertEqual(len(found), 1)
        return os.path.dirname(found[0])

    def run_tool(self, *arguments, **env):
        if shutil.which(arguments[0]) is None:
            self.skipTest(f"{arguments[0]} is not installed")
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **env}, check=False)
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 0, said)
        return said

    def assert_limits(self, module):
        good = self.origin("a.b.good.test")
        gw = self.filtered(("short", f"module = {os.path.realpath(module)}\nlabels = 4"), allow=[f"*.good.test:{good.port}"], hosts=[good])
        self.assertEqual(gw.get(f"http://a.b.good.test:{good.port}/").status, 200)
        self.assert_filtered(gw, gw.get(f"http://s3cret.a.b.good.test:{good.port}/"), "short", "a name has at most 4 labels")

    def test_the_example_with_pkg_config(self):
        flags = self.run_tool("pkg-config", "--cflags", "srt-filter", PKG_CONFIG_PATH=self.install()).split()
        source = os.path.join(ROOT, "packaging", "examples", "module", "label_limit.c")
        self.run_tool("cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", self.path("label-limit.so"), source, *flags)
        os.chmod(self.path("label-limit.so"), 0o755)
        self.assert_limits(self.path("label-limit.so"))

    def test_the_example_with_cmake(self):
        self.install()
        source = os.path.join(ROOT, "packaging", "examples", "module")
        self.run_tool("cmake", "-S", source, "-B", self.path("built"), f"-DCMAKE_PREFIX_PATH={self.path('usr')}")
        self.run_tool("cmake", "--build", self.path("built"))
        self.assert_limits(os.path.join(self.path("built"), "label-limit.so"))


if __name__ == "__main__":
    main()
