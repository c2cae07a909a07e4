import json
import os
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

# Whatever takes long and needs no key comes first.
claim = os.environ.get("LEASEHOLD_CLAIM_FILE")
if claim is not None:
    while not os.path.exists(claim):
        time.sleep(0.01)
    with open(claim) as file:
        os.environ.update(json.load(file))


class Echo(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"hello from {os.environ['LEASEHOLD_KEY']}\n".encode())


server = HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Echo)
if claim is not None:
    os.remove(claim)  # It serves its key now: until the claim is removed, nobody is sent here.
server.serve_forever()
