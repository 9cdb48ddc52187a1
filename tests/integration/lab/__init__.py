"""The laboratory: real gateways between scripted clients, origins and name servers.

Everything lives on 127.0.0.0/8 and in temporary directories, needs the python standard library only,
waits for conditions and never for time to pass, and is torn down with the test.

A test reads like a conversation:

    class Connect(LabCase):
        def test_H17_refused_connect_never_parses_what_followed(self):
            good = self.origin("good.test")
            gateway = self.gateway(allow=[good.authority], hosts=[good])
            client = gateway.client()
            client.send("CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n"
                        f"GET http://{good.authority}/x HTTP/1.1\\r\\nHost: {good.authority}\\r\\n\\r\\n")
            self.assertEqual(client.response().status, 403)
            client.expect_eof()
            self.assertEqual(good.requests, [])

case.py has LabCase, which makes the parts; gateway.py the gateway under test; origin.py and
upstream.py what it may reach; names.py the name server; talk.py both ends of a conversation; serve.py whoever lets connections in; pki.py a
certificate authority; hello.py ClientHellos byte by byte; launcher.py
a launcher as the gateway sees it.
"""

from lab.case import LabCase, main
from lab.gateway import GatewayDied, NotReady
from lab.names import Answer, Question, record
from lab.origin import reply
from lab.talk import Closed, Talk, TimedOut, whole_and_dribbled

__all__ = ["Answer", "Closed", "GatewayDied", "LabCase", "NotReady", "Question", "Talk", "TimedOut", "main",
           "record", "reply", "whole_and_dribbled"]
