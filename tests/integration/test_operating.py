"""What operators rely on: numbers that agree with the log, rotation under load, what systemd is told."""

import json
import os
import re
import signal
import subprocess
import unittest

from lab import LabCase, main


def bench(program):
    return os.path.join(os.environ["SRT_BENCH_DIR"], f"bench-{program}")


class Mixed(LabCase):
    """20,000 requests of all kinds, while the log is rotated."""

    REQUESTS = 4000
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

    def metrics(self):
        found = {}
        for line in self.gw.operate("/metrics").splitlines():
            if not line.startswith("#"):
                name, labels, value = self.SAMPLE.match(line).groups()
                found[name, labels or ""] = float(value)
        return found

    def entries(self, paths):
        for path in paths:
            with open(path, encoding="utf-8") as file:
                yield from map(json.loads, file)

    def test_numbers_agree_with_a_log_that_is_rotated_under_load(self):
        config = self.config(allow=[f"good.test:{self.port}", f"127.0.0.2:{self.port}"],
                             hosts={"good.test": "127.0.0.2"})
        self.gw = self.gateway(config.replace("admin = none", f"admin = {self.path('admin.sock')}"))
        loads = [self.load("tunnel", "127.0.0.2"), self.load("get", "good.test"), self.load("get", "good.test"),
                 self.load("refuse", "evil.test"), self.load("refuse", "bad.test")]
        paths = []
        # Five times, spread over the load: each a fifth of its records further on.
        for number in range(5):
            self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=100)
            paths.append(f"{self.gw.audit_path}.{number}")
            os.rename(self.gw.audit_path, paths[-1])
            self.gw._audit_at, self.gw._records = 0, []
            self.gw.send_signal(signal.SIGUSR1)
        for load in loads:
            out = json.loads(load.communicate()[0])
            self.assertEqual((load.returncode, out["failed"]), (0, 0), out)
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
        self.assertEqual(sum(decisions.values()), 5 * self.REQUESTS)
        for (front, verdict, reason), count in decisions.items():
            labels = f'front="{front}",result="{verdict}",reason="{reason}"'
            self.assertEqual(found["srt_gateway_requests_total", labels], count)
        for direction in ("up", "down"):
            self.assertEqual(found["srt_gateway_traffic_bytes_total", f'direction="{direction}"'],
                             sum(entry[f"bytes_{direction}"] for entry in entries if entry["kind"] == "close"))
        self.assertEqual(found["srt_gateway_audit_lost_total", ""], 0)
        self.assertEqual(found["srt_gateway_decision_seconds_count", 'result="deny"'], 2 * self.REQUESTS)
        self.assertEqual(found["srt_gateway_decision_seconds_count", 'result="allow"'], 3 * self.REQUESTS)
        self.assertGreaterEqual(found["srt_gateway_connect_seconds_count", 'result="ok"'], self.REQUESTS)
        self.assertGreater(found["srt_gateway_dns_seconds_count", 'result="ok"'], 0)


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


class FullDisk(LabCase):
    @unittest.skipUnless(os.geteuid() == 0, "a disk of its own needs root")
    def test_L05_a_full_disk_refuses_and_what_makes_room_makes_it_go_on(self):
        disk = self.path("disk")
        os.mkdir(disk)
        good = self.origin("good.test")
        config = self.config(allow=[good.authority], hosts=[good]).replace(
            self.path("audit.jsonl"), os.path.join(disk, "audit.jsonl"))
        script = 'mount -t tmpfs -o size=64k none "$0" && head -c 40000 /dev/zero >"$0/filler" && exec "$@"'
        gw = self.gateway(config, wrapper=["unshare", "-m", "sh", "-c", script, disk])
        statuses = []
        with gw.client() as client:
            while 503 not in statuses:
                self.assertLess(len(statuses), 1000)
                statuses.append(client.get(f"http://{good.authority}/").status)
        self.assertEqual(set(statuses[:-1]), {200})
        self.assertEqual(len(good.requests), len(statuses) - 1)
        inside = f"/proc/{gw.process.pid}/root{disk}"
        os.unlink(os.path.join(inside, "filler"))
        gw.wait_for_stderr(lambda line: "can be written again" in line)
        self.assertEqual(gw.get(f"http://{good.authority}/").status, 200)
        with open(os.path.join(inside, "audit.jsonl"), encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        self.assertEqual([entry["seq"] for entry in entries], list(range(len(entries))))


if __name__ == "__main__":
    main()
