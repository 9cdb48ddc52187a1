"""What operators rely on: numbers that agree with the log, rotation under load, what systemd is told."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from lab import LabCase, main
from lab.gateway import binary


def bench(program):
    return os.path.join(os.environ["SRT_BENCH_DIR"], f"bench-{program}")


class Mixed(LabCase):
    """Requests of all kinds, while the log is rotated: five times SRT_LOAD_REQUESTS, and some."""

    REQUESTS = int(os.environ.get("SRT_LOAD_REQUESTS", "4000"))
    SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')

    def setUp(self):
        super().setUp()
        origin = subprocess.Popen([bench("origin"), "127.0.0.2:0"], stdout=subprocess.PIPE)
        self.addCleanup(origin.stdout.close)
        self.addCleanup(origin.wait)
        self.addCleanup(origin.terminate)
        self.port = int(origin.stdout.readline().removeprefix(b"ready "))

    def load(self, mode, target):
        return subprocess.Popen([bench("load"), mode, self.gw.address(), f"{target}:{self.port}", "-c", "8",
                                 "-n", str(self.REQUESTS)], stdout=subprocess.PIPE)

    def rare_ones(self):
        """What the load has not; returns how many decisions that is."""
        closed = self.closed_port("127.0.0.2")
        self.assertEqual(self.gw.socks_code("evil.test", 443), 2)
        self.assertEqual(self.gw.socks_code("127.0.0.2", closed), 2)
        self.assertEqual(self.gw.socks_code("127.0.0.2", self.port), 0)
        self.assertEqual(self.gw.refused_connect("127.0.0.3:1").status, 502)
        self.assertEqual(self.gw.refused_connect("10.0.0.1:1").status, 403)
        self.assertEqual(self.gw.refused_connect("127.1:1").status, 400)
        self.assertEqual(self.gw.get("http://good.test:1/").status, 403)
        return 7

    def metrics(self):
        text, found = self.gw.operate("/metrics"), {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, value = self.SAMPLE.match(line).groups()
                found[name, labels or ""] = float(value)
        return found

    def entries(self, paths):
        for path in paths:
            with open(path, encoding="utf-8") as file:
                yield from map(json.loads, file)

    def test_numbers_agree_with_a_log_that_is_rotated_under_load(self):
        config = self.config(allow=[f"good.test:{self.port}", f"127.0.0.2:{self.port}", "127.0.0.3:1"],
                             deny=["10.0.0.0/8"], hosts={"good.test": "127.0.0.2"})
        self.gw = self.gateway(config.replace("admin = none", f"admin = {self.path('admin.sock')}"))
        loads = [self.load("tunnel", "127.0.0.2"), self.load("get", "good.test"), self.load("get", "good.test"),
                 self.load("refuse", "evil.test"), self.load("refuse", "bad.test")]
        paths = []
        # Five times within the load, however fast it is read here.
        for number in range(5):
            self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=self.REQUESTS // 4)
            paths.append(f"{self.gw.audit_path}.{number}")
            os.rename(self.gw.audit_path, paths[-1])
            self.gw._audit_at, self.gw._records = 0, []
            self.gw.send_signal(signal.SIGUSR1)
        for load in loads:
            out = json.loads(load.communicate()[0])
            self.assertEqual((load.returncode, out["failed"]), (0, 0), out)
        rare = self.rare_ones()
        while self.metrics()["srt_gateway_tunnels", ""] > 0:
            pass
        found = self.metrics()
        self.gw.stop()
        entries = list(self.entries(paths + [self.gw.audit_path]))
        self.assertEqual([entry["seq"] for entry in entries], list(range(len(entries))))
        decisions = {}
        for entry in entries:
            if entry["kind"] == "decision":
                key = (entry["front"], entry["verdict"], entry["reason"] or "")
                decisions[key] = decisions.get(key, 0) + 1
        self.assertEqual(sum(decisions.values()), 5 * self.REQUESTS + rare)
        for (front, verdict, reason), count in decisions.items():
            labels = f'front="{front}",result="{verdict}",reason="{reason}"'
            self.assertEqual(found["srt_gateway_requests_total", labels], count)
        counted = {labels for name, labels in found if name == "srt_gateway_requests_total" and found[name, labels] > 0}
        self.assertEqual(len(counted), len(decisions))
        for verdict in ("allow", "deny"):
            labels = f'policy="main",result="{verdict}"'
            self.assertEqual(found["srt_gateway_policy_requests_total", labels],
                             sum(entry["verdict"] == verdict and entry["policy"] == "main" for entry in entries if entry["kind"] == "decision"))
        for direction in ("up", "down"):
            self.assertEqual(found["srt_gateway_traffic_bytes_total", f'direction="{direction}"'],
                             sum(entry[f"bytes_{direction}"] for entry in entries if entry["kind"] == "close"))
        self.assertEqual(found["srt_gateway_audit_lost_total", ""], 0)
        judged = {verdict: found["srt_gateway_decision_seconds_count", f'result="{verdict}"'] for verdict in ("allow", "deny")}
        self.assertGreaterEqual(judged["deny"], 2 * self.REQUESTS)
        self.assertGreaterEqual(judged["allow"], 3 * self.REQUESTS)
        self.assertLessEqual(sum(judged.values()), 5 * self.REQUESTS + rare)
        self.assertGreaterEqual(found["srt_gateway_connect_seconds_count", 'result="ok"'], self.REQUESTS)
        self.assertGreater(found["srt_gateway_dns_seconds_count", 'result="ok"'], 0)

    @unittest.skipIf(shutil.which("promtool") is None, "promtool is not there")
    def test_the_metrics_are_as_prometheus_wants_them(self):
        config = self.config(allow=[f"good.test:{self.port}", f"127.0.0.2:{self.port}", "127.0.0.3:1"], deny=["10.0.0.0/8"],
                             hosts={"good.test": "127.0.0.2"})
        self.gw = self.gateway(config.replace("admin = none", f"admin = {self.path('admin.sock')}"))
        for full in (False, True):
            if full:
                self.rare_ones()
            promtool = subprocess.run(["promtool", "check", "metrics"], input=self.gw.operate("/metrics"),
                                      capture_output=True, text=True, check=False)
            self.assertEqual((promtool.returncode, promtool.stdout, promtool.stderr), (0, "", ""))

    def test_L14_a_client_that_never_gives_up_is_recorded_each_time_and_summed_up(self):
        config = self.config(allow=["good.test"]).replace("admin = none", f"admin = {self.path('admin.sock')}")
        self.gw = self.gateway(config)
        tries = 2 * self.REQUESTS
        load = subprocess.run([bench("load"), "refuse", self.gw.address(), "evil.test:443", "-c", "4", "-n", str(tries)],
                              stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(load.stdout)["failed"], 0)
        self.gw.stop()
        entries = list(self.entries([self.gw.audit_path]))
        self.assertEqual([entry["seq"] for entry in entries], list(range(tries)))
        out, _ = self.tool("summary", "--json", self.gw.audit_path)
        self.assertEqual(json.loads(out)["denied_hosts"],
                         [{"name": "evil.test", "denied": tries, "rule": "allow = evil.test", "note": None}])


@unittest.skipUnless(os.geteuid() == 0, "a disk of its own needs root")
class FullDisk(LabCase):
    def on_a_disk(self, **parts):
        """A gateway whose log is on a tmpfs of 64 kB that only it sees, with 40 kB on it already."""
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        self.good = self.origin("good.test")
        config = self.config(allow=[self.good.authority], hosts=[self.good], **parts).replace(
            self.path("audit.jsonl"), os.path.join(self.disk, "audit.jsonl"))
        script = 'mount -t tmpfs -o size=64k none "$0" && head -c 40000 /dev/zero >"$0/filler" && exec "$@"'
        return self.gateway(config, wrapper=["unshare", "-m", "sh", "-c", script, self.disk])

    def entries(self, gw):
        with open(f"/proc/{gw.process.pid}/root{self.disk}/audit.jsonl", encoding="utf-8") as file:
            found = [json.loads(line) for line in file]
        self.assertEqual([entry["seq"] for entry in found], list(range(len(found))))
        return found

    def test_L05_a_full_disk_refuses_and_what_makes_room_makes_it_go_on(self):
        gw, statuses = self.on_a_disk(), []
        good = self.good
        with gw.client() as client:
            while 503 not in statuses:
                self.assertLess(len(statuses), 1000)
                statuses.append(client.get(f"http://{good.authority}/").status)
        self.assertEqual(set(statuses[:-1]), {200})
        self.assertEqual(len(good.requests), len(statuses) - 1)
        os.unlink(f"/proc/{gw.process.pid}/root{self.disk}/filler")
        gw.wait_for_stderr(lambda line: "can be written again" in line)
        self.assertEqual(gw.get(f"http://{good.authority}/").status, 200)
        for entry in self.entries(gw):
            if entry["kind"] == "lost":
                self.assertEqual(set(entry), {"schema", "ts", "seq", "kind", "count"})
        refused = [entry for entry in self.entries(gw) if entry["kind"] == "decision" and entry["reason"] == "audit-failure"]
        lost = [entry["count"] for entry in self.entries(gw) if entry["kind"] == "lost"]
        # The refusal, and before it perhaps its own allow, if that was what did not fit any more.
        self.assertEqual(len(refused), 1)
        self.assertLessEqual(sum(lost), 1)

    def test_L05_or_goes_on_and_counts_what_nobody_has_room_for(self):
        gw = self.on_a_disk(gateway="audit-required = no")
        path, tries = "x" * 8000, 1500  # more than the 8 MB that may wait
        with gw.client() as client:
            for number in range(tries):
                self.assertEqual(client.get(f"http://evil.test/{number}/{path}").status, 403)
        self.assertEqual(gw.get(f"http://{self.good.authority}/").status, 200)
        subprocess.run(["nsenter", "-t", str(gw.process.pid), "-m", "mount", "-o", "remount,size=64m", self.disk], check=True)
        gw.wait_for_stderr(lambda line: "can be written again" in line)
        gw.refused_connect("last.test:443")
        while not any(entry.get("host") == "last.test" for entry in self.entries(gw)):
            pass
        kinds = [entry["kind"] for entry in self.entries(gw)]
        lost = sum(entry["count"] for entry in self.entries(gw) if entry["kind"] == "lost")
        self.assertGreater(lost, 0)
        self.assertEqual(kinds.count("decision") + kinds.count("close") + lost, tries + 3)


class Summary(LabCase):
    """Memory of `summary` does not grow with the log, whatever is in it."""

    LINES = int(os.environ.get("SRT_SUMMARY_LINES", "300000"))

    def write_log(self, name, count):
        line = ('{"schema":"srt.audit/1","ts":"2026-11-%02dT%02d:00:00.000Z","seq":%d,"kind":"decision","id":"01M8MPFKGWJPENFTJEZABCH46W",'
                '"sandbox":"box-%d","client":null,"listener":"main","policy":"p","generation":1,"peer":"127.0.0.1:1","front":"connect",'
                '"method":"CONNECT","path":null,"host":"host-%d.test","port":443,"addr":null,"verdict":"deny","mode":"enforce","would":null,'
                '"reason":"not-allowed","rule":null,"filter":null,"message":"no"}\n')
        with open(self.path(name), "w", encoding="ascii") as file:
            for number in range(count):
                file.write(line % (1 + number % 28, number % 24, number, number, number))
        return self.path(name)

    def peak_kib(self, log):
        # Freed memory that a sanitizer keeps for its own use is none of the program's.
        env = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=0:thread_local_quarantine_size_kb=0")
        with subprocess.Popen([binary(), "summary", "--json", log], stdout=subprocess.PIPE, env=env) as process:
            found = json.loads(process.stdout.read())
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return found["denied"], usage.ru_maxrss

    def test_memory_does_not_grow_with_the_log(self):
        """Each line brings a new name; 40,000 are more than are told apart."""
        few, little = self.peak_kib(self.write_log("few.jsonl", 40000))
        many, as_little = self.peak_kib(self.write_log("many.jsonl", self.LINES))
        self.assertEqual((few, many), (40000, self.LINES))
        self.assertLess(as_little, 1.05 * little)


if __name__ == "__main__":
    main()
