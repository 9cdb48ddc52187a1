"""srt-launch under test: runs commands inside the fence."""

import json
import os
import subprocess

from lab.case import LabCase
from lab.gateway import SANITIZER, environment


def binary():
    path = os.environ.get("SRT_LAUNCH_BIN")
    if not path:
        raise RuntimeError("SRT_LAUNCH_BIN names no srt-launch: run tests/run, or ctest in a build tree")
    return path


class Finished:
    """How a run ended: status, and what was said as text."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __repr__(self):
        return f"<status {self.status}\nstdout: {self.out}\nstderr: {self.err}>"


class LaunchCase(LabCase):
    """A home, a working directory `work`, and settings that a test names."""

    def setUp(self):
        super().setUp()
        self.home, self.work = self.path("home"), self.path("work")
        for directory in (self.home, self.work):
            os.makedirs(directory)

    def settings(self, allow=(), deny=(), name="settings.json", write=(".",), filesystem=None, **more):
        """A settings file; returns its path."""
        network = {"allowedDomains": list(allow), "deniedDomains": list(deny)}
        files = {"denyRead": [], "allowWrite": list(write), "denyWrite": []}
        files.update(filesystem or {})
        network.update(more.pop("network", {}))
        return self.write(name, json.dumps({"network": network, "filesystem": files, **more}))

    def launch(self, *arguments, stdin=b"", env=None, cwd=None, status=None, timeout=120, setsid=False):
        """Runs `srt-launch ARGUMENTS` in the working directory. `status`, if given, must be the result."""
        done = subprocess.run([binary(), *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              cwd=cwd or self.work, env={**environment(), "HOME": self.home, **(env or {})},
                              timeout=timeout, check=False, start_new_session=setsid)
        finished = Finished(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
        self.assertIsNone(SANITIZER.search(finished.err), finished)
        if status is not None:
            self.assertEqual(finished.status, status, finished)
        return finished

    def shared_gateway(self, allow=(), deny=(), operated=False, **parts):
        """A gateway to attach to: `gateway.control` is what `--gateway` wants; this user's policy is main."""
        control = self.path("control.sock")
        more = f"[client me]\nuid = {os.getuid()}\npolicy = main\n" + parts.pop("more", "")
        config = self.config(allow=allow, deny=deny, more=more, **parts).replace("control = none", f"control = {control}")
        if operated:
            config = config.replace("admin = none", f"admin = {self.path('admin.sock')}")
        gateway = self.gateway(config)
        gateway.control = "unix:" + control
        return gateway
