"""A certificate authority that lives as long as a test."""

import os
import ssl
import subprocess


class Authority:
    def __init__(self, directory):
        self.directory = str(directory)
        self.certificate = os.path.join(self.directory, "ca.pem")
        self._key = os.path.join(self.directory, "ca.key")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-keyout", self._key, "-out", self.certificate, "-days", "2",
                      "-subj", "/CN=Laboratory authority")

    def _openssl(self, *arguments, stdin=None):
        done = subprocess.run(["openssl", *arguments], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd=self.directory, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]}: {done.stdout.decode()}")

    def issue(self, *names, days=2):
        """Paths of a certificate and its key for names and addresses; expired when `days` is negative."""
        base = os.path.join(self.directory, f"{names[0].replace(':', '_')}_{days}")
        alternatives = ",".join(("IP:" if name.replace(".", "").isdigit() or ":" in name else "DNS:") + name
                                for name in names)
        with open(base + ".ext", "w", encoding="ascii") as file:
            file.write(f"subjectAltName={alternatives}\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-keyout", base + ".key", "-out", base + ".csr", "-subj", f"/CN={names[0]}")
        self._openssl("x509", "-req", "-in", base + ".csr", "-CA", self.certificate, "-CAkey", self._key,
                      "-CAcreateserial", "-days", str(days), "-out", base + ".pem", "-extfile", base + ".ext")
        return base + ".pem", base + ".key"

    def self_signed(self, name):
        base = os.path.join(self.directory, name + "_self")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-keyout", base + ".key", "-out", base + ".pem", "-days", "2", "-subj", f"/CN={name}",
                      "-addext", f"subjectAltName=DNS:{name}")
        return base + ".pem", base + ".key"

    def server(self, *names, days=2):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(*names, days=days))
        return context

    def client(self):
        return ssl.create_default_context(cafile=self.certificate)
